/* Uses every part of MPI that needs the process manager or a peer, once, and prints what comes of it.
 *
 *   world [MILLISECONDS [RANK]]   then stays for a while: in all ranks before MPI_Finalize, or in one before MPI_Init
 *   world abort                   rank 1 ends all by MPI_Abort with status 7
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 1 << 20 };

/* Of a ring of blocks: each rank sends its own to the next. */
static unsigned long around(int rank, int size)
{
    unsigned char *own = malloc(BLOCK), *other = malloc(BLOCK);
    unsigned long sum = 0;
    for (int i = 0; i < BLOCK; i++)
        own[i] = (unsigned char)(i * 31 + rank);
    MPI_Sendrecv(own, BLOCK, MPI_BYTE, (rank + 1) % size, 5, other, BLOCK, MPI_BYTE, (rank + size - 1) % size, 5,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < BLOCK; i++)
        sum = sum * 1000003 + other[i];
    free(own);
    free(other);
    return sum;
}

int main(int argc, char **argv)
{
    const char *before = getenv("PMIX_RANK") ? getenv("PMIX_RANK") : getenv("PMI_RANK");
    int late = argc > 2 ? atoi(argv[2]) : -1;
    useconds_t stay = argc > 1 ? (useconds_t)atoi(argv[1]) * 1000 : 0;
    if (before && late == atoi(before))
        usleep(stay);

    int rank, size, color_rank, sum, *universe, has_universe;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (argc > 1 && strcmp(argv[1], "abort") == 0) {
        if (rank == 1)
            MPI_Abort(MPI_COMM_WORLD, 7);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    unsigned long block = around(rank, size), blocks;
    MPI_Allreduce(&block, &blocks, 1, MPI_UNSIGNED_LONG, MPI_BXOR, MPI_COMM_WORLD);
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Comm_rank(half, &color_rank);
    int weighted = color_rank * (rank + 1), weights;
    MPI_Allreduce(&weighted, &weights, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_free(&half);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &has_universe);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d of %d: sum %d, blocks %016lx, weights %d, universe %d\n", rank, size, sum, blocks, weights,
           has_universe ? *universe : -1);
    fflush(stdout);
    if (late < 0)
        usleep(stay);
    MPI_Finalize();
    return 0;
}
