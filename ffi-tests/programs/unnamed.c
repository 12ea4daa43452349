/*
 * Opens a session after MPI_Finalize. The program does not import MPI_Session_init, but
 * looks the procedure up by dlsym.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, class, (*open_session)(MPI_Info, MPI_Errhandler, MPI_Session *);
    MPI_Session session;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    *(void **)&open_session = dlsym(RTLD_DEFAULT, "MPI_Session_init");
    MPI_Error_class(open_session(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session), &class);
    if (rank == 0)
        printf("refused: %d\n", class == MPI_ERR_UNSUPPORTED_OPERATION);
    return 0;
}
