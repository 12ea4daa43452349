/*
 * A broadcast that its root leaves early. The root then sends a message to rank
 * 1, which has posted a matching receive before the broadcast. A message from
 * another rank is in flight to rank 1 meanwhile.
 *
 *     crossing [steps]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, steps = argc > 1 ? atoi(argv[1]) : 12, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int step = 0; step < steps; step++) {
        int of_root = -1, of_other = -1, number = step;
        MPI_Request requests[2];
        if (rank == 1) {
            MPI_Irecv(&of_root, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &requests[0]);
            MPI_Irecv(&of_other, 1, MPI_INT, 2, 2, MPI_COMM_WORLD, &requests[1]);
        }
        if (rank == 2)
            MPI_Send(&sum, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
        MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD);
        sum += number * (rank + 1);
        if (rank == 0)
            MPI_Send(&sum, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
        if (rank == 1) {
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            printf("step %d: %d %d\n", step, of_root, of_other);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
