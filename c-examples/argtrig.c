/*
 * argtrig: Newton's method for a dense system of nonlinear equations.
 *
 *   mpirun -n 4 argtrig N ITERATIONS [OUTPUT] [options]
 *
 *   OUTPUT            file for the final x: a line of text with its length,
 *                     then the values as doubles
 *   --block B         rows and columns of a block of the matrix (default: 32)
 *   --restart R       start again from the first x every R iterations, since the
 *                     method converges in few iterations (default: 10; 0: never)
 *   --print-every K   print the norm every K iterations (default: 10)
 *   --times           print the elapsed times at the end
 *
 * Except for times, the output depends only on the arguments and on the number of
 * ranks.  The program stores nothing to survive the failure of a rank;
 * bench/argtrig_kept.c does so, in the ways that Liu's thesis compares.
 */
#include <stdio.h>

#include <mpi.h>

#include "newton.h"

int main(int argc, char **argv)
{
    newton_options o;
    newton p;
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (newton_parse(&o, argc, argv, 1) != argc) {
        if (rank == 0)
            fprintf(stderr,
                    "usage: argtrig N ITERATIONS [OUTPUT] [--block B] [--restart R] [--print-every K] [--times]\n");
        MPI_Finalize();
        return 2;
    }
    if (rank == 0) {
        printf("argtrig: %ld unknowns, %ld iterations, %d ranks\n", o.unknowns, o.iterations, size);
        fflush(stdout);
    }

    newton_create(&p, &o);
    double begin = MPI_Wtime();
    for (long it = 0; it < o.iterations; it++)
        newton_iterate(&p, &o, it);
    newton_evaluate(&p);
    if (rank == 0)
        printf("argtrig: done, norm %.15e\n", p.norm);
    if (o.times)
        newton_print_times(&p, begin);
    int ok = newton_write(&p, &o);
    newton_free(&p);
    MPI_Finalize();
    return ok ? 0 : 1;
}
