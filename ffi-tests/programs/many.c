/*
 * many COUNT: spawns this number of processes one after the other, and disconnects
 * each. The MPI library must release its resources for a disconnected process.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    MPI_Comm parent, other;
    int number = 0, rank, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Recv(&number, 1, MPI_INT, 0, 0, parent, MPI_STATUS_IGNORE);
        number *= 3;
        MPI_Send(&number, 1, MPI_INT, 0, 0, parent);
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    for (int i = 0; i < (argc > 1 ? atoi(argv[1]) : 4); i++) {
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other, MPI_ERRCODES_IGNORE);
        MPI_Send(&i, 1, MPI_INT, 0, 0, other);
        MPI_Recv(&number, 1, MPI_INT, 0, 0, other, MPI_STATUS_IGNORE);
        MPI_Comm_disconnect(&other);
        sum += number;
    }
    printf("rank %d: %d\n", rank, sum);
    MPI_Finalize();
    return 0;
}
