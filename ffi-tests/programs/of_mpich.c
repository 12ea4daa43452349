/*
 * Calls that are not supported with MPICH under understudy: a call with a number of
 * more than 31 bits, and a call of one of MPICH's own procedures.
 */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
#ifdef MPICH
    static char byte;
    MPIX_Stream stream;
    MPI_Win win;
    int class = -1;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Win_create_c(&byte, 1, (MPI_Aint)1 << 40, MPI_INFO_NULL, MPI_COMM_WORLD, &win), &class);
    printf("%s\n", class == MPI_ERR_COUNT ? "MPI_ERR_COUNT" : "another answer");
    fflush(stdout);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPIX_Stream_create(MPI_INFO_NULL, &stream);
#endif
    MPI_Finalize();
    return 0;
}
