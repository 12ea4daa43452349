/*
 * Each rank appends lines to a file of its own, one after the other and without any
 * call of MPI, then meets all others: diaries ROUNDS LINES [all]. A line takes 5 ms.
 * The files show whether two processes have run as one rank. With `all`, each rank
 * prints a line at the end of a round, and not only rank 0.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
    int rank, rounds = argc > 1 ? atoi(argv[1]) : 10, lines = argc > 2 ? atoi(argv[2]) : 20;
    char name[32];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(name, sizeof name, "diary.%d", rank);
    for (int round = 0; round < rounds; round++) {
        for (int line = 0; line < lines; line++) {
            struct timespec pause = {0, 5000000};
            FILE *file = fopen(name, "a");
            if (!file)
                MPI_Abort(MPI_COMM_WORLD, 1);
            fprintf(file, "rank %d round %d line %d\n", rank, round, line);
            fclose(file);
            nanosleep(&pause, NULL);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (argc > 3) {
            printf("round %d of rank %d\n", round, rank);
            fflush(stdout);
        } else if (rank == 0) {
            printf("round %d\n", round);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
