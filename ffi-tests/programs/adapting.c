/*
 * adapting: data that are set up once, and that some ranks change a little,
 * long afterwards and on request.
 *
 *   mpirun -n 4 adapting RANKS [unmap]
 *
 * RANKS is a list such as 1,3. All ranks compute until rank 0 finds a file
 * `change`. Rank 0 searches only after some steps, since the first steps may be
 * replayed later. Then the named ranks change some pages (or unmap a part and
 * map it again), and rank 0 prints a line. All ranks wait, outside of MPI, until
 * a file `go-on` exists. Later they wait again, for a file `end`. The output at
 * the end depends on the data only.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CELLS = 1 << 21, PART = 1 << 17, PAGE = 512, FIRST_STEPS = 100, LAST_STEPS = 200 };

static double *table, *part;
static FILE *protocol;

static double *map(size_t cells)
{
    double *at = mmap(NULL, cells * sizeof *at, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return at;
}

static void set_up(int rank)
{
    double seed = rank == 0 ? 0.5 : 0;
    MPI_Bcast(&seed, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    char name[32];
    snprintf(name, sizeof name, "protocol.%d", rank);
    protocol = fopen(name, "w");
    table = map(CELLS);
    part = map(PART);
    for (int cell = 0; cell < CELLS; cell++)
        table[cell] = seed + rank + 1.0 / (1 + cell);
    for (int cell = 0; cell < PART; cell++)
        part[cell] = seed - rank - 1.0 / (1 + cell);
}

static void change(int rank, int unmap)
{
    fprintf(protocol, "%d changes its data\n", rank);
    fflush(protocol);
    if (unmap) {
        munmap(part, PART * sizeof *part);
        part = map(PART);
        part[7] = rank;
        return;
    }
    for (int page = 3; page < 1000; page += 64)
        table[page * PAGE + rank] += 1;
}

static int is_named(int rank, const char *list)
{
    for (; *list; list += strcspn(list, ","), list += *list == ',')
        if (atoi(list) == rank)
            return 1;
    return 0;
}

static unsigned long long hash(const void *data, size_t length)
{
    const unsigned char *bytes = data;
    unsigned long long sum = 0xcbf29ce484222325u;
    for (size_t at = 0; at < length; at++)
        sum = (sum ^ bytes[at]) * 0x100000001b3u;
    return sum;
}

static double step(int number)
{
    double own = table[number * 37 % CELLS], sum;
    MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

/* No collective: a checkpoint must not occur between the change and the wait. */
static void say_and_wait(int rank, int size, const char *what, const char *file)
{
    if (rank != 0)
        MPI_Send(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    for (int other = 1; rank == 0 && other < size; other++)
        MPI_Recv(NULL, 0, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0) {
        printf("%s\n", what);
        fflush(stdout);
    }
    while (access(file, F_OK))
        usleep(1000);
}

int main(int argc, char **argv)
{
    int rank, size, told = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: adapting RANKS [unmap]\n");
        return 2;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    set_up(rank);
    for (int number = 0; !told; number++) {
        step(number % 100);
        told = rank == 0 && number >= FIRST_STEPS && access("change", F_OK) == 0;
        MPI_Bcast(&told, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (is_named(rank, argv[1]))
        change(rank, argc > 2);
    say_and_wait(rank, size, "changed", "go-on");
    double sum = 0;
    for (int number = 0; number < LAST_STEPS; number++) {
        if (number == LAST_STEPS / 2)
            say_and_wait(rank, size, "half", "end");
        sum += step(number);
    }
    unsigned long long own[2] = {hash(table, CELLS * sizeof *table), hash(part, PART * sizeof *part)};
    unsigned long long *all = malloc(size * sizeof own);
    MPI_Gather(own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, 0, MPI_COMM_WORLD);
    for (int other = 0; rank == 0 && other < size; other++)
        printf("%d: %016llx %016llx, %.17g\n", other, all[2 * other], all[2 * other + 1], sum);
    fclose(protocol);
    MPI_Finalize();
    return 0;
}
