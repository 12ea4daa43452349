/*
 * Uses each service of the process manager, or of a peer, once, and prints the results.
 *
 *     world                   uses all services, then ends
 *     world apart             uses no published names, which belong to a node
 *     world stay [RANK]       all ranks, or this one, sleep for a minute before MPI_Finalize
 *     world late RANK         this rank sleeps for a minute before MPI_Init
 *     world abort             rank 1 calls MPI_Abort with 7
 *     world again DIRECTORY   waits for a file in DIRECTORY whose name is its rank, and
 *                             restarts with the variables in the file
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 1 << 20, MINUTE = 60, LONGEST = 1 << 16 };

/* Each rank sends a block to the next; returns a checksum (FNV-1a) of the received one. */
static unsigned long around(int rank, int size)
{
    unsigned char *own = malloc(BLOCK), *other = malloc(BLOCK);
    unsigned long sum = 0xcbf29ce484222325;
    for (int i = 0; i < BLOCK; i++)
        own[i] = (unsigned char)(i * 31 + rank);
    MPI_Sendrecv(own, BLOCK, MPI_BYTE, (rank + 1) % size, 5, other, BLOCK, MPI_BYTE, (rank + size - 1) % size, 5,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < BLOCK; i++)
        sum = (sum ^ other[i]) * 0x100000001b3;
    free(own);
    free(other);
    return sum;
}

/* Splits the ranks by parity, in reverse order; returns the sum of
 * (old rank + 1) * (new rank) over all ranks. */
static int halves(int rank)
{
    MPI_Comm half;
    int place, sum;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Comm_rank(half, &place);
    MPI_Comm_free(&half);
    place *= rank + 1;
    MPI_Allreduce(&place, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

/* True if all ranks find the name that rank 0 has published. */
static int published(int rank)
{
    char name[] = "world-name", port[MPI_MAX_PORT_NAME] = "";
    int found;
    if (rank == 0)
        MPI_Publish_name(name, MPI_INFO_NULL, "port#1:2");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Lookup_name(name, MPI_INFO_NULL, port);
    int own = strcmp(port, "port#1:2") == 0;
    MPI_Allreduce(&own, &found, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Unpublish_name(name, MPI_INFO_NULL, "port#1:2");
    return found;
}

/*
 * Executes this program with other variables, from a file of NAME=VALUE with zeros
 * between.
 */
static void again(char **argv, int rank)
{
    static char path[4096], variables[LONGEST], *list[LONGEST / 4];
    snprintf(path, sizeof path, "%s/%d", argv[2], rank);
    while (access(path, R_OK) != 0)
        usleep(1000);
    FILE *file = fopen(path, "r");
    size_t length = fread(variables, 1, LONGEST - 1, file);
    int count = 0;
    for (char *at = variables; at < variables + length; at += strlen(at) + 1)
        list[count++] = at;
    /* The connections are closed without finalizing. */
    for (int descriptor = 3; descriptor < 1000; descriptor++)
        close(descriptor);
    execve("/proc/self/exe", (char *[]){argv[0], NULL}, list);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "", *of_open_mpi = getenv("PMIX_RANK");
    const char *launched = of_open_mpi ? of_open_mpi : getenv("PMI_RANK");
    if (argc > 2 && strcmp(mode, "late") == 0 && launched && strcmp(launched, argv[2]) == 0)
        sleep(MINUTE);

    int rank, size, sum, *universe, has_universe;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (strcmp(mode, "abort") == 0) {
        if (rank == 1)
            MPI_Abort(MPI_COMM_WORLD, 7);
        sleep(MINUTE);
    }
    unsigned long block = around(rank, size), blocks;
    MPI_Allreduce(&block, &blocks, 1, MPI_UNSIGNED_LONG, MPI_BXOR, MPI_COMM_WORLD);
    int places = halves(rank), names = strcmp(mode, "apart") == 0 ? -1 : published(rank);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &has_universe);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d of %d: sum %d, blocks %016lx, places %d, names %d, universe %d\n", rank, size, sum, blocks, places,
           names, has_universe ? *universe : -1);
    fflush(stdout);
    if (strcmp(mode, "stay") == 0 && (argc == 2 || atoi(argv[2]) == rank))
        sleep(MINUTE);
    if (strcmp(mode, "again") == 0)
        again(argv, rank);
    MPI_Finalize();
    return 0;
}
