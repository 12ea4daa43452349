/*
 * A profiling library (with -DLIBRARY) that counts calls of MPI_Allreduce, and a
 * program that does not use the library explicitly. Like other profilers, the library
 * has its own communicator, finds the wrapped procedures by dlsym or by the profiling
 * names, and calls MPI when it is loaded; then it also appends the name of the process
 * to the file "profiled". In MPI_Finalize, it writes its report.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#ifdef LIBRARY
static long calls, level = 1;
static MPI_Comm own = MPI_COMM_NULL;

__attribute__((constructor)) static void look(void)
{
    int is_initialized = 0;
    MPI_Initialized(&is_initialized);
    FILE *list = fopen("profiled", "a");
    if (list) {
        fprintf(list, "%s %d\n", program_invocation_short_name, is_initialized);
        fclose(list);
    }
}

int MPI_Init(int *argc, char ***argv)
{
    int rc = PMPI_Init(argc, argv);
    PMPI_Comm_dup(MPI_COMM_WORLD, &own);
    return rc;
}

int MPI_Pcontrol(const int now, ...)
{
    level = now;
    return MPI_SUCCESS;
}

int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    static int (*next)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
    calls += level;
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "MPI_Allreduce");
    return next(from, to, count, type, op, comm);
}

int MPI_Finalize(void)
{
    int rank;
    long all = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    printf("profile of rank %d: %ld calls\n", rank, calls);
    fflush(stdout);
    PMPI_Reduce(&calls, &all, 1, MPI_LONG, MPI_SUM, 0, own);
    PMPI_Comm_free(&own);
    if (rank == 0) {
        FILE *report = fopen("profile", "w");
        fprintf(report, "%ld calls\n", all);
        fclose(report);
    }
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
        MPI_Pcontrol(round % 10 != 0);
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
