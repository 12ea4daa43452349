/*
 * unasked STEPS: in each step, a thread makes an MPI call and then the main thread makes
 * one, although the program has requested no thread level.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *add(void *sum)
{
    MPI_Allreduce(MPI_IN_PLACE, sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    return NULL;
}

int main(int argc, char **argv)
{
    int rank, steps = argc > 1 ? atoi(argv[1]) : 100;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    long sum = rank + 1;
    for (int step = 0; step < steps; step++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, add, &sum) || pthread_join(thread, NULL))
            MPI_Abort(MPI_COMM_WORLD, 1);
        add(&sum);
        sum = sum % 1000003 + rank * step;
        if (rank == 0) {
            printf("step %d: %ld\n", step, sum);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
