/*
 * memory: large static data, used as fast as the memory allows.
 *
 *   mpirun -n 2 memory stream|walk STATIC_MIB DYNAMIC_MIB STEPS
 *
 * Each rank sets up a table of STATIC_MIB (in huge pages if the system provides
 * them) and then only reads it: from one end to the other, or in jumps each of
 * which depends on the one before. The results are stored into DYNAMIC_MIB that
 * change all the time. Rank 0 prints `ready` after the set-up and `loop SECONDS` at
 * the end.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MIB = 1 << 20, HUGE = 2 * MIB, JUMPS = 200000 };

static void *room(size_t bytes)
{
    void *at = NULL;
    if (posix_memalign(&at, HUGE, bytes + HUGE))
        MPI_Abort(MPI_COMM_WORLD, 1);
    madvise(at, bytes, MADV_HUGEPAGE);
    return at;
}

static double stream(const double *table, size_t entries, double *changing, size_t places, double factor)
{
    double sum = 0;
    for (size_t from = 0; from < entries; from += places) {
        size_t count = entries - from < places ? entries - from : places;
        for (size_t i = 0; i < count; i++)
            changing[i] = 0.5 * changing[i] + factor * table[from + i];
        sum += changing[from % places];
    }
    return sum;
}

static double walk(const double *table, size_t entries, double *changing, size_t places, uint64_t *at)
{
    double sum = 0;
    for (int jump = 0; jump < JUMPS; jump++) {
        double found = table[*at % entries];
        uint64_t bits;
        memcpy(&bits, &found, sizeof bits);
        *at = (*at ^ bits) * 6364136223846793005u + 1442695040888963407u;
        *at ^= *at >> 29;
        changing[*at % places] += 1e-3 * found;
        sum += found;
    }
    return sum;
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 5)
        MPI_Abort(MPI_COMM_WORLD, 2);
    int walks = !strcmp(argv[1], "walk"), steps = atoi(argv[4]);
    size_t entries = strtoul(argv[2], NULL, 10) * MIB / sizeof(double);
    size_t places = strtoul(argv[3], NULL, 10) * MIB / sizeof(double);
    double *table = room(entries * sizeof *table), *changing = room(places * sizeof *changing);
    double seed = rank == 0 ? 0.731 : 0, sum = 0;
    MPI_Bcast(&seed, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    for (size_t i = 0; i < entries; i++)
        table[i] = seed / (double)(i + rank + 1);
    memset(changing, 0, places * sizeof *changing);
    /* The set-up phase ends here. */
    for (int step = 0; step < 200; step++)
        MPI_Allreduce(&seed, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("ready\n");
        fflush(stdout);
    }
    uint64_t at = rank + 1;
    double begin = MPI_Wtime(), middle = begin;
    for (int step = 0; step < steps; step++) {
        if (step == steps / 2)
            middle = MPI_Wtime();
        double own = walks ? walk(table, entries, changing, places, &at)
                           : stream(table, entries, changing, places, 1.0 / (step + 1));
        MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    double end = MPI_Wtime();
    if (rank == 0)
        printf("loop %.6f %.6f %.17g\n", end - begin, end - middle, sum);
    free(table);
    free(changing);
    MPI_Finalize();
    return 0;
}
