// older_names: Open MPI 4 has persistent collectives as MPIX_…, and its Fortran
// bindings call them. Interpreters open modules with all symbols bound at once, so
// these procedures must exist; and they must work.
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    void *bindings = dlopen("libmpi_mpifh.so.40", RTLD_NOW);
    if (rank == 0)
        printf("bindings: %s\n", bindings ? "opened" : dlerror());
    int (*init)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Info, MPI_Request *) = NULL;
    *(void **)&init = dlsym(RTLD_DEFAULT, "MPIX_Allreduce_init");
    long value = rank + 1, sum = 0;
    MPI_Request request;
    if (!init || init(&value, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request))
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int round = 0; round < 40; round++) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        value = (value * 31 + sum) % 1000003;
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            printf("round %d: %ld\n", round, sum);
            fflush(stdout);
        }
        usleep(5000);
    }
    MPI_Request_free(&request);
    MPI_Finalize();
    return 0;
}
