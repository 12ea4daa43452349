/*
 * OpenMP: teams of threads that are created and end between collectives, with
 * threadprivate data: teams STEPS THREADS.
 */
#include <mpi.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { CELLS = 20000, MOST = 64 };
static uint64_t own;
#pragma omp threadprivate(own)
static double field[CELLS];

int main(int argc, char **argv)
{
    int level, rank;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int steps = argc > 1 ? atoi(argv[1]) : 100, threads = argc > 2 ? atoi(argv[2]) : 4;
    omp_set_dynamic(0);
    omp_set_num_threads(threads);
    uint64_t sums[MOST] = {0}, total = 0;
    for (int step = 1; step <= steps; step++) {
#pragma omp parallel
        {
            int me = omp_get_thread_num();
#pragma omp for schedule(static)
            for (int i = 0; i < CELLS; i++)
                field[i] = field[i] * 0.75 + (double)((i * 7 + step + rank) % 13) / (1 + total % 5);
            /* In every third step, the main thread is in MPI while the others compute. */
#pragma omp master
            if (step % 3 == 0) {
                uint64_t mine = step;
                MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
                total += mine;
            }
            for (int i = 0; i < 3000; i++)
                own = own * 6364136223846793005u + me + i;
            sums[me] = own;
        }
        double sum = 0, all;
        /* In one order, independent of the threads. */
        for (int i = 0; i < CELLS; i++)
            sum += field[i];
        MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < threads; i++)
            total = total * 31 + (sums[i] >> 8);
        MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0 && step % 5 == 0) {
            printf("step %d: %.17g %016llx\n", step, all, (unsigned long long)total);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
