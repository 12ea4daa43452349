/*
 * turns: cost of MPI_Comm_rank, by the thread that calls it.
 *
 *   mpirun -n 2 turns [multiple]
 *
 * Rank 0 prints `alone x` and `several x` for the main thread before and after the
 * program has created another thread, and `other x` for that thread. Values are
 * seconds, the best of ROUNDS rounds. Without `multiple` the program requests
 * MPI_THREAD_FUNNELED, and only the main thread calls MPI.
 */
#include <pthread.h>
#include <stdio.h>

#include <mpi.h>

enum { ROUNDS = 200, COUNT = 100000 };

static int rank;

static void *measure(void *name)
{
    double best = 1;
    int asked;
    for (int r = 0; r < ROUNDS; r++) {
        double start = MPI_Wtime();
        for (int i = 0; i < COUNT; i++)
            MPI_Comm_rank(MPI_COMM_WORLD, &asked);
        double took = (MPI_Wtime() - start) / COUNT;
        best = took < best ? took : best;
    }
    if (rank == 0)
        printf("%s %.6e\n", (char *)name, best);
    return NULL;
}

static void *nothing(void *argument)
{
    return argument;
}

int main(int argc, char **argv)
{
    int provided, is_multiple = argc > 1;
    pthread_t thread;

    MPI_Init_thread(&argc, &argv, is_multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    measure("alone");
    pthread_create(&thread, NULL, nothing, NULL);
    pthread_join(thread, NULL);
    measure("several");
    if (is_multiple) {
        pthread_create(&thread, NULL, measure, "other");
        pthread_join(thread, NULL);
    }
    MPI_Finalize();
    return 0;
}
