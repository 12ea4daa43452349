/*
 * Collectives in callbacks: error handlers and the delete functions of attributes.
 *
 * Some ranks call a collective in a callback, and others call the same collective
 * outside of callbacks.
 */
#include "../check.h"

enum { NOBODY = 1 << 20, STEPS = 6 };

static double sum = 1, own;
static int handled, deleted, key, step;
static MPI_Comm comm;

static void add_up(void)
{
    MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    sum = 1 + 1e-3 * sum;
}

static void on_error(MPI_Comm *of, int *code, ...)
{
    (void)of, (void)code;
    handled++;
    add_up();
}

static int on_delete(MPI_Comm of, int which, void *value, void *extra)
{
    (void)of, (void)which, (void)value, (void)extra;
    deleted++;
    MPI_Barrier(MPI_COMM_WORLD);
    add_up();
    return MPI_SUCCESS;
}

static void content(void)
{
    for (int end = step + STEPS; step < end; step++) {
        own = rank + step % 7 + 0.25 * sum;
        /* All ranks, or one of them, are in the handler. */
        if (step % 3 == 0 || rank == step % size)
            MPI_Send(&own, 1, MPI_DOUBLE, NOBODY, 0, comm);
        else
            add_up();
        MPI_Comm_set_attr(comm, key, &own);
        MPI_Comm_delete_attr(comm, key);
        add_up();
        say("step %d: %.17g", step, sum);
    }
    say("%d errors, %d deletions", handled, deleted);
}

int main(int argc, char **argv)
{
    MPI_Errhandler handler;
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(on_error, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &key, NULL);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
