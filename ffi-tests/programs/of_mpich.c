/* Calls a procedure for large counts, which Open MPI 5.0 does not have. */
#include <mpi.h>

int main(int argc, char **argv)
{
    int number = 0;
    MPI_Init(&argc, &argv);
#ifdef MPICH
    MPI_Bcast_c(&number, 1, MPI_INT, 0, MPI_COMM_WORLD);
#endif
    MPI_Finalize();
    return number;
}
