/* A profiling library that wraps procedures of Fortran only. */
#include <stdio.h>

static int waits;

void pmpi_waitall_(int *, int *, int *, int *);
void pmpi_finalize_(int *);

void mpi_waitall_(int *count, int *requests, int *statuses, int *error)
{
    waits++;
    pmpi_waitall_(count, requests, statuses, error);
}

void mpi_finalize_(int *error)
{
    /* Not on standard output, where the program's runtime writes within a line. */
    fprintf(stderr, "%d waits\n", waits);
    pmpi_finalize_(error);
}
