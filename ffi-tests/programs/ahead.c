/*
 * Received data of a partitioned message stay until the receiver starts the next
 * message, even if the sender has already started that message.
 */
#include "check.h"

enum { PARTS = 4, LENGTH = 16 };

static double out[PARTS * LENGTH], in[PARTS * LENGTH];
static MPI_Request requests[2];

static double value(int from, int round, int i)
{
    return round * 1e6 + from * 1e3 + i;
}

static int is_of(int from, int round)
{
    for (int i = 0; i < PARTS * LENGTH; i++)
        if (in[i] != value(from, round, i))
            return 0;
    return 1;
}

static void content(void)
{
    int left = (rank + size - 1) % size, right = (rank + 1) % size, flag;
    if (round_ == 0) {
        MPI_Psend_init(out, PARTS, LENGTH, MPI_DOUBLE, right, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
        MPI_Precv_init(in, PARTS, LENGTH, MPI_DOUBLE, left, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    } else if (rank == 0) {
        /* Lets the library make progress meanwhile. */
        double begin = MPI_Wtime();
        while (MPI_Wtime() - begin < 0.005)
            MPI_Iprobe(left, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
    CHECK(round_ == 0 || is_of(left, round_ - 1));
    for (int i = 0; i < PARTS * LENGTH; i++)
        out[i] = value(rank, round_, i);
    MPI_Startall(2, requests);
    MPI_Pready_range(0, PARTS - 1, requests[0]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK(is_of(left, round_));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Finalize();
    return 0;
}
