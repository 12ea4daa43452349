/*
 * adapt: a table is set up from data of rank 0, used for a while, set up again
 * in twice the size, and used again.
 *
 *   mpirun -n 4 adapt STEPS [PHASES]
 *
 * MPI_Pcontrol(2) announces each set-up but the first; MPI_Pcontrol(1) marks the
 * end of each. PHASES: number of times that the table grows (default 1).
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { FIRST = 100000, SEEDS = 64 };

static double *table;
static size_t entries;

static void set_up(int rank, int phase)
{
    double seeds[SEEDS], share, sum;
    for (int i = 0; i < SEEDS; i++)
        seeds[i] = rank == 0 ? (i + 1) * 0.37 / (phase + 1) : 0;
    MPI_Bcast(seeds, SEEDS, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    free(table);
    entries = (size_t)FIRST << phase;
    table = malloc(entries * sizeof *table);
    if (!table)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (size_t i = 0; i < entries; i++)
        table[i] = seeds[i % SEEDS] / (1.0 + i) + rank;
    share = table[entries - 1];
    MPI_Allreduce(&share, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (size_t i = 0; i < entries; i += 7)
        table[i] += 1e-6 * sum;
    MPI_Pcontrol(1);
}

static double use(int rank, int steps, double value)
{
    for (int step = 0; step < steps; step++) {
        double own = 0, sum;
        for (size_t i = step % 97; i < entries; i += 97)
            own += table[i] * value;
        MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        value = 1 + sum / (1 + sum * sum);
        if (rank == 0 && step % 500 == 499) {
            printf("%zu entries, step %d: %.17g\n", entries, step + 1, value);
            fflush(stdout);
        }
    }
    return value;
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int steps = argc > 1 ? atoi(argv[1]) : 500, phases = argc > 2 ? atoi(argv[2]) : 1;
    set_up(rank, 0);
    double value = use(rank, steps, 1);
    for (int phase = 1; phase <= phases; phase++) {
        MPI_Pcontrol(2);
        /* The program finds out where to refine. */
        value = use(rank, 100, value);
        set_up(rank, phase);
        value = use(rank, steps, value);
    }
    uint64_t hash = 14695981039346656037u, all;
    for (size_t i = 0; i < entries * sizeof *table; i++)
        hash = (hash ^ ((unsigned char *)table)[i]) * 1099511628211u;
    MPI_Reduce(&hash, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%zu entries: %016llx\n", entries, (unsigned long long)all);
    free(table);
    MPI_Finalize();
    return 0;
}
