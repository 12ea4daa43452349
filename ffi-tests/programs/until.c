/*
 * until: all ranks compute and exchange until a file exists, so that the length of the
 * run does not depend on the machine's speed.
 *
 *   mpirun -n 4 until FILE
 */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

enum { CELLS = 20000 };
static double field[CELLS];

int main(int argc, char **argv)
{
    int rank, size, go_on = 1;
    double sum = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: until FILE\n");
        return 2;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    while (go_on) {
        double own = 0;
        for (int cell = 0; cell < CELLS; cell++) {
            field[cell] = 0.5 * field[cell] + rank + 1;
            own += field[cell];
        }
        MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0)
            go_on = access(argv[1], F_OK) != 0;
        MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("%d ranks: %s\n", size, sum > 0 ? "computed" : "nothing");
    MPI_Finalize();
    return 0;
}
