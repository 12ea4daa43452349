/*
 * callbacks: MPI calls the program back in the initialisation phase: copy and
 * delete functions of attributes, and operators of its own. They leave static
 * data behind, some of it on the heap, which the main phase uses.
 *
 *   mpirun -n 4 callbacks COLLECTIVES
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 60000, TABLE = 4096 };

static double operator_[CELLS], table[TABLE];
static long copied, deleted, reduced;
static double *from_copies[8];
static int key, kept_key;

/* An attribute's copy has memory of its own. */
static int copy(MPI_Comm comm, int which, void *extra, void *in, void *out, int *flag)
{
    int rank;
    MPI_Comm_rank(comm, &rank);
    double *mine = malloc(5000 * sizeof *mine);
    for (int i = 0; i < 5000; i++)
        mine[i] = ((double *)in)[i % 10] + i * 0.25 + rank + *(int *)extra;
    from_copies[copied++ % 8] = mine;
    table[copied % TABLE] += which == key;
    *(double **)out = mine;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete(MPI_Comm comm, int which, void *value, void *extra)
{
    (void)comm, (void)which;
    deleted++;
    table[100 + deleted % 100] = ((double *)value)[7] + *(int *)extra;
    return MPI_SUCCESS;
}

/* Not commutative, and it keeps count. */
static void chain(void *in, void *inout, int *length, MPI_Datatype *type)
{
    double *left = in, *right = inout;
    (void)type;
    for (int i = 0; i < *length; i++)
        right[i] = 0.5 * left[i] + right[i] * 1.25;
    reduced++;
    table[1000 + reduced % 1000] += right[0];
}

static void set_up(int rank)
{
    static double value[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    static int extra = 3;
    MPI_Comm copies[3];
    MPI_Op op;
    MPI_Comm_create_keyval(copy, delete, &key, &extra);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete, &kept_key, &extra);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, value);
    MPI_Comm_set_attr(MPI_COMM_WORLD, kept_key, value);
    for (int i = 0; i < 3; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &copies[i]);
    MPI_Comm_delete_attr(copies[1], key);
    MPI_Comm_free(&copies[2]);
    MPI_Op_create(chain, 0, &op);
    double own[200], all[200];
    for (int i = 0; i < 200; i++)
        own[i] = rank + i;
    for (int time = 0; time < 5; time++) {
        MPI_Allreduce(own, all, 200, MPI_DOUBLE, op, copies[0]);
        MPI_Reduce_local(own, all, 200, MPI_DOUBLE, op);
        memcpy(own, all, sizeof own);
    }
    for (int cell = 0; cell < CELLS; cell++)
        operator_[cell] = own[cell % 200] / (1 + cell + rank);
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int collectives = argc > 1 ? atoi(argv[1]) : 100;
    set_up(rank);
    double sum = 1;
    for (int step = 0; step < collectives; step++) {
        double *copies = from_copies[step % 2];
        double own = operator_[step % CELLS] * sum + table[step % TABLE] + copies[step % 5000] * 1e-3;
        MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        sum = 1 + 1e-3 * sum;
        if (rank == 0 && step % 1000 == 999) {
            printf("step %d: %.17g\n", step, sum);
            fflush(stdout);
        }
    }
    double counts[3] = {copied, deleted, reduced}, all[3];
    MPI_Reduce(counts, all, 3, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks: %g copies, %g deletions, %g reductions\n", size, all[0], all[1], all[2]);
    MPI_Finalize();
    return 0;
}
