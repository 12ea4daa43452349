/*
 * roundabout: MPI is called in every indirect way.
 *
 * With -DEARLY, this is a library that calls MPI in its constructor, before MPI_Init.
 * With -DLATE, it is a library that the program opens in its set-up phase and whose
 * constructor communicates; it needs another library, made with -DDEEP. The program
 * finds procedures by dlsym, in tables of their addresses, and by PMPI names.
 *
 *   mpirun -n 4 roundabout LATE-LIBRARY COLLECTIVES
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#if defined EARLY

int early_version, early_flag = -1;

__attribute__((constructor)) static void before_main(void)
{
    int minor;
    MPI_Get_version(&early_version, &minor);
    MPI_Initialized(&early_flag);
}

#elif defined DEEP

double deep[10000];

__attribute__((constructor)) static void when_needed(void)
{
    int rank;
    double first = 0.125;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Bcast(&first, 1, MPI_DOUBLE, 2, MPI_COMM_WORLD);
    for (int cell = 0; cell < 10000; cell++)
        deep[cell] = first * cell + rank;
}

__attribute__((destructor)) static void when_left(void)
{
    int over;
    MPI_Finalized(&over);
    if (!over)
        MPI_Barrier(MPI_COMM_WORLD);
}

#elif defined LATE

extern double deep[];

enum { CELLS = 30000 };
double late_cells[CELLS];
double *late_heap;
MPI_Comm late_comm;

__attribute__((constructor)) static void when_opened(void)
{
    int rank, size;
    double own, all = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &late_comm);
    MPI_Comm_rank(late_comm, &rank);
    MPI_Comm_size(late_comm, &size);
    late_heap = malloc(CELLS * sizeof *late_heap);
    for (int cell = 0; cell < CELLS; cell++) {
        own = 1.0 / (cell + rank + 1);
        if (cell % 1000 == 0)
            MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, late_comm);
        late_cells[cell] = own + all;
        late_heap[cell] = own * all;
    }
}

double late_value(int cell)
{
    return late_cells[cell % CELLS] + late_heap[cell % CELLS] + 1e-5 * deep[cell % 10000];
}

#else

typedef int (*Reduce)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
typedef int (*Broadcast)(void *, int, MPI_Datatype, int, MPI_Comm);

/* Addresses that the linker fills in. */
static const Reduce reduces[] = {MPI_Allreduce, PMPI_Allreduce};
static double cells[40000];

static void *need(void *found, const char *what)
{
    if (!found) {
        fprintf(stderr, "%s: %s\n", what, dlerror());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return found;
}

int main(int argc, char **argv)
{
    int rank, size;
    if (argc < 3)
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    void *late = need(dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL), "dlopen");
    double (*value)(int) = (double (*)(int))need(dlsym(late, "late_value"), "late_value");
    Broadcast broadcast = (Broadcast)need(dlsym(RTLD_DEFAULT, "MPI_Bcast"), "MPI_Bcast");
    Reduce found = (Reduce)need(dlsym(RTLD_DEFAULT, "PMPI_Allreduce"), "PMPI_Allreduce");
    int *early_version = need(dlsym(RTLD_DEFAULT, "early_version"), "early_version");
    int *early_flag = need(dlsym(RTLD_DEFAULT, "early_flag"), "early_flag");
    double sum = 1;
    for (int cell = 0; cell < 40000; cell++) {
        double own = value(cell) + rank;
        if (cell % 500 == 0)
            reduces[cell / 500 % 2](&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (cell % 700 == 0)
            broadcast(&own, 1, MPI_DOUBLE, cell % size, MPI_COMM_WORLD);
        cells[cell] = own + sum;
    }
    sum = 1;
    for (int step = 0; step < atoi(argv[2]); step++) {
        double own = cells[step % 40000] + value(step) * sum;
        (step % 2 ? found : reduces[0])(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        sum = 1 + 1e-4 * sum;
        if (rank == 0 && step % 1000 == 999) {
            printf("step %d: %.17g\n", step, sum);
            fflush(stdout);
        }
    }
    if (rank == 0)
        printf("%d ranks, MPI %d, %s before MPI_Init: %.17g\n", size, *early_version, *early_flag ? "wrong" : "right", sum);
    dlclose(late);
    MPI_Finalize();
    return 0;
}

#endif
