/*
 * Rank 1 sends large messages to rank 0, which waits for each of them. Between two
 * messages all ranks meet.
 *
 *     one_way ROUNDS [broadcast]
 *
 * With `broadcast`, MPI_Ibcast sends the messages.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 4000000 };

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, rounds = argc > 1 ? atoi(argv[1]) : 5;
    int is_broadcast = argc > 2 && strcmp(argv[2], "broadcast") == 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char *bytes = malloc(BYTES);
    for (int round = 1; round <= rounds; round++) {
        MPI_Request request = MPI_REQUEST_NULL;
        memset(bytes, rank == 1 ? round : 0, BYTES);
        MPI_Barrier(MPI_COMM_WORLD);
        /* Rank 0 waits before the message is sent. */
        if (rank == 1)
            usleep(100000);
        if (is_broadcast)
            MPI_Ibcast(bytes, BYTES, MPI_CHAR, 1, MPI_COMM_WORLD, &request);
        else if (rank == 0)
            MPI_Irecv(bytes, BYTES, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &request);
        else if (rank == 1)
            MPI_Isend(bytes, BYTES, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (rank == 0) {
            int is_right = bytes[0] == round && bytes[BYTES - 1] == round;
            printf("round %d: %s\n", round, is_right ? "right" : "WRONG");
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
