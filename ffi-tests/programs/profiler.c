/*
 * A profiling library (with -DLIBRARY) that counts calls of MPI_Allreduce, and
 * a program that does not know of it.
 */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

#ifdef LIBRARY
static long calls;

int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    calls++;
    return PMPI_Allreduce(from, to, count, type, op, comm);
}

int MPI_Finalize(void)
{
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    printf("profile of rank %d: %ld calls\n", rank, calls);
    fflush(stdout);
    return PMPI_Finalize();
}
#else
int main(int argc, char **argv)
{
    int rank;
    double value = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int round = 0; round < 60; round++) {
        double mine = value * (rank + 1) / 7 + round;
        MPI_Allreduce(&mine, &value, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0)
            printf("round %d: %.17g\n", round, value);
        fflush(stdout);
        usleep(10000);
    }
    MPI_Finalize();
    return 0;
}
#endif
