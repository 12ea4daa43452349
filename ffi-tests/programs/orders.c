/*
 * orders: sums whose last digit depends on the order of the additions.
 *
 *   mpirun -n RANKS orders [STEPS [PAUSE]]
 *
 * MPICH changes the order of the additions after the first few sums on a communicator;
 * the change is visible with eight ranks or more. On several nodes, the order depends
 * on which ranks share a node. Each step sums by all procedures, on three
 * communicators, and is followed by PAUSE milliseconds of sleep.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <mpi.h>

enum { OTHER_EVERY = 3, NEW_EVERY = 11 };

static int rank;

/* A number of each rank; sums of these numbers are rounded. */
static double own(int step)
{
    static const double numbers[] = {0.1, 1e7 / 3, -1e7 / 7, 0.7, 3e3 / 11, -2e5 / 13, 1.0 / 17, 5e6 / 19};
    return numbers[(3 * rank + step) % 8] * (1 + 0.37 * step);
}

static double on_all(int step, MPI_Comm comm)
{
    double mine = own(step), sum;
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
    return sum;
}

static double on_one(int step, MPI_Comm comm)
{
    double mine = own(step), sum = 0;
    MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, comm);
    return sum;
}

/* The sums of the last rank, blocking and not, and a non-blocking reduction. */
static void later(int step, MPI_Comm comm, double sums[3])
{
    int last;
    double mine = own(step);
    MPI_Request requests[2];
    MPI_Comm_size(comm, &last);
    last--;
    sums[0] = sums[1] = sums[2] = 0;
    MPI_Scan(&mine, &sums[0], 1, MPI_DOUBLE, MPI_SUM, comm);
    MPI_Iscan(&mine, &sums[1], 1, MPI_DOUBLE, MPI_SUM, comm, &requests[0]);
    MPI_Ireduce(&mine, &sums[2], 1, MPI_DOUBLE, MPI_SUM, last, comm, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Bcast(sums, 3, MPI_DOUBLE, last, comm);
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 60, pause = argc > 2 ? atoi(argv[2]) : 0;
    MPI_Comm other, recent;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Comm_dup(MPI_COMM_WORLD, &recent);
    for (int step = 0; step < steps; step++) {
        if (step % NEW_EVERY == NEW_EVERY - 1) {
            MPI_Comm_free(&recent);
            MPI_Comm_dup(other, &recent);
        }
        double all = on_all(step, MPI_COMM_WORLD), one = step % OTHER_EVERY ? 0 : on_one(step, other);
        double late = on_all(step, recent), others[3];
        later(step, other, others);
        if (rank == 0)
            printf("step %d: %a %a %a %a %a %a\n", step, all, one, late, others[0], others[1], others[2]);
        fflush(stdout);
        usleep(1000 * pause);
    }
    MPI_Comm_free(&recent);
    MPI_Comm_free(&other);
    MPI_Finalize();
    return 0;
}
