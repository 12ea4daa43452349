/* Two tables that functions compute from a few parameters: recompute WAY ROUNDS.
 *
 * Each round uses both tables, and every EVERY rounds the tables are computed again
 * from other parameters. The functions are registered (understudy_recompute) unless
 * WAY is `kept`. Other values of WAY are unusual uses:
 *
 * - `calls`: the registered function calls MPI
 * - `small`: a region shorter than a page is registered, too
 * - `protected`: the tables are read-only
 * - `unmapped`: a third table is unmapped later
 * - `wrong`: a word of a table is changed
 * - `late`: the second table is annotated and written to in turn */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <understudy.h>

enum { EVERY = 7, WORDS = 1 << 20 };

/* Parameters of the first table. */
static unsigned parameters[18];

static void make_first(void *memory, size_t bytes, void *argument)
{
    unsigned *table = memory, *from = argument;
    for (size_t i = 0; i < bytes / sizeof *table; i++)
        table[i] = (unsigned)i * from[0] + (unsigned)(i >> 3) * from[1] + 1;
}

static unsigned *first, *second;

/* The second table is computed from the first. */
static void make_second(void *memory, size_t bytes, void *argument)
{
    unsigned *table = memory;
    for (size_t i = 0; i < bytes / sizeof *table; i++)
        table[i] = first[WORDS - 1 - i] ^ *(unsigned *)argument;
}

static void make_by_others(void *memory, size_t bytes, void *argument)
{
    make_first(memory, bytes, argument);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void compute(void)
{
    make_first(first, WORDS * sizeof *first, parameters);
    make_second(second, WORDS * sizeof *second, parameters);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    const char *way = argc > 1 ? argv[1] : "marked";
    int rounds = argc > 2 ? atoi(argv[2]) : 60;
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    size_t bytes = WORDS * sizeof *first;
    /* Neither table begins or ends at a page boundary. */
    char *block = mmap(NULL, 2 * bytes + 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    first = (unsigned *)(block + 200);
    second = (unsigned *)(block + 1000 + bytes);
    memset(block, 7, 200);
    parameters[0] = rank + 3;
    parameters[1] = 17;
    compute();
    if (!strcmp(way, "calls")) {
        understudy_recompute(first, bytes, make_by_others, parameters);
    } else if (strcmp(way, "kept")) {
        understudy_recompute(first, bytes, make_first, parameters);
        understudy_recompute(second, bytes, make_second, parameters);
    }
    if (!strcmp(way, "small"))
        understudy_recompute(parameters + 2, 64, make_first, parameters);
    if (!strcmp(way, "protected"))
        mprotect(block, 2 * bytes + 8192, PROT_READ);
    char *gone = NULL;
    if (!strcmp(way, "unmapped")) {
        gone = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        make_first(gone, bytes, parameters);
        understudy_recompute(gone, bytes, make_first, parameters);
    }
    unsigned value = rank, from = 0;
    for (int round = 1; round <= rounds; round++) {
        int left = (rank + size - 1) % size, right = (rank + 1) % size;
        MPI_Sendrecv(&value, 1, MPI_UNSIGNED, right, 0, &from, 1, MPI_UNSIGNED, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < WORDS; i += 512)
            value = value * 1664525u + first[i] + second[WORDS - 1 - i / 2] + from;
        if (round % EVERY == 0 && strcmp(way, "protected")) {
            parameters[0] = value % 1000;
            parameters[1] += rank;
            compute();
        }
        if (!strcmp(way, "wrong") && round == rounds / 2)
            second[4321] ^= 1;
        if (!strcmp(way, "unmapped") && round == rounds / 2)
            munmap(gone, bytes);
        if (!strcmp(way, "late") && round % EVERY == 3) {
            /* Annotated and written to in turn. */
            understudy_recompute(second, bytes, NULL, NULL);
            second[round] += value;
        }
        if (!strcmp(way, "late") && round % EVERY == 0)
            understudy_recompute(second, bytes, make_second, parameters);
        understudy_point();
        if (rank == 0 && round % 10 == 0) {
            printf("round %d: %08x\n", round, value);
            fflush(stdout);
        }
    }
    unsigned sum = value;
    for (int i = 0; i < WORDS; i++)
        sum = sum * 31 + first[i] + 7 * second[i];
    unsigned all = 0;
    MPI_Reduce(&sum, &all, 1, MPI_UNSIGNED, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("tables: %08x\n", all);
    MPI_Finalize();
    return 0;
}
