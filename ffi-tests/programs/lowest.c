/*
 * lowest: open(2) returns the lowest free descriptor (POSIX). The program repeatedly
 * opens and closes a file between calls of MPI, and counts how often the descriptor was
 * not that of the first open.
 *
 *   mpirun -n 4 lowest STEPS
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { OPENINGS = 200 };

static int open_once(void)
{
    int number = open("/dev/null", O_RDONLY);
    close(number);
    return number;
}

int main(int argc, char **argv)
{
    int rank, others = 0, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int first = open_once();
    for (int step = 0; step < (argc > 1 ? atoi(argv[1]) : 100); step++) {
        for (int opening = 0; opening < OPENINGS; opening++)
            others += open_once() != first;
        MPI_Allreduce(&others, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("%d of the numbers were not the lowest\n", sum);
    MPI_Finalize();
    return 0;
}
