/*
 * within: the program communicates in its callbacks: error handlers and the
 * delete functions of attributes. Some ranks make a collective there that
 * others make outside.
 *
 *   mpirun -n 4 within STEPS
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { NOBODY = 1 << 20 };

static double sum = 1, own;
static int handled, deleted;

static void add_up(void)
{
    MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    sum = 1 + 1e-3 * sum;
}

static void on_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    handled++;
    add_up();
}

static int on_delete(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    deleted++;
    MPI_Barrier(MPI_COMM_WORLD);
    add_up();
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    int rank, size, key;
    MPI_Comm comm;
    MPI_Errhandler handler;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int steps = argc > 1 ? atoi(argv[1]) : 100;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(on_error, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &key, NULL);
    for (int step = 0; step < steps; step++) {
        own = rank + step % 7 + 0.25 * sum;
        /* All of them, or one of them, are in the handler. */
        if (step % 3 == 0 || rank == step % size)
            MPI_Send(&own, 1, MPI_DOUBLE, NOBODY, 0, comm);
        else
            add_up();
        MPI_Comm_set_attr(comm, key, &own);
        MPI_Comm_delete_attr(comm, key);
        add_up();
        if (rank == 0 && step % 100 == 99) {
            printf("step %d: %.17g\n", step, sum);
            fflush(stdout);
        }
    }
    int counts[2] = {handled, deleted}, all[2];
    MPI_Reduce(counts, all, 2, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks: %d errors, %d deletions\n", size, all[0], all[1]);
    MPI_Finalize();
    return 0;
}
