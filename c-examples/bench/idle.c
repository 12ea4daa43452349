/*
 * idle: starts, waits for a while without computing, ends.
 *
 *   mpirun -n 2 idle SECONDS [MIB]
 *
 * Rank 0 prints `ready TIME` when all ranks have returned from MPI_Init and have
 * allocated MIB of data each. TIME is CLOCK_MONOTONIC in nanoseconds, read at the
 * end of MPI_Init.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mpi.h>

int main(int argc, char **argv)
{
    int rank;
    struct timespec now;

    MPI_Init(&argc, &argv);
    clock_gettime(CLOCK_MONOTONIC, &now);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double seconds = argc > 1 ? atof(argv[1]) : 0.0;
    size_t bytes = argc > 2 ? strtoul(argv[2], NULL, 10) << 20 : 0;
    char *data = malloc(bytes + 1);
    if (data == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(data, rank + 1, bytes + 1);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("ready %lld\n", (long long)now.tv_sec * 1000000000 + now.tv_nsec);
        fflush(stdout);
    }
    struct timespec nap = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&nap, NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    free(data);
    MPI_Finalize();
    return 0;
}
