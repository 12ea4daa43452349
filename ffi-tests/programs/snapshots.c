// snapshots STEPS PAUSE_US: each rank writes a new file in each step; no file is changed
// later. Rank 2 sleeps after each collective.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, steps = argc > 1 ? atoi(argv[1]) : 5, pause = argc > 2 ? atoi(argv[2]) : 1000;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int step = 0; step < steps; step++) {
        char name[64];
        snprintf(name, sizeof name, "snapshot.%d.%d", rank, step);
        FILE *file = fopen(name, "w");
        if (!file || fprintf(file, "%d\n", step * 10 + rank) < 0 || fclose(file))
            MPI_Abort(MPI_COMM_WORLD, 1);
        long sum = step + rank;
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0) {
            printf("step %d: %ld\n", step, sum);
            fflush(stdout);
        }
        if (rank == 2)
            usleep(pause);
    }
    MPI_Finalize();
    return 0;
}
