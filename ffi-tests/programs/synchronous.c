/*
 * Synchronous sends complete when their messages are received, not before. The sends are
 * among others with an equal tag, persistent, or matched by MPI_Mprobe.
 */
#include "check.h"

enum { MESSAGES = 6 };

static MPI_Request again = MPI_REQUEST_NULL;
static int again_value;

/* Number of completed requests, after polls that give them time to complete. */
static int ended(MPI_Request *requests, int count)
{
    int all = 0;
    for (int look = 0; look < 20; look++)
        for (int i = all = 0; i < count; i++) {
            int flag = 0;
            if (requests[i] != MPI_REQUEST_NULL)
                MPI_Request_get_status(requests[i], &flag, MPI_STATUS_IGNORE);
            all += flag;
        }
    return all;
}

static void content(void)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size, values[MESSAGES], in;
    MPI_Request sends[MESSAGES + 1];
    MPI_Status status;
    MPI_Message message;
    if (round_ == 0)
        MPI_Ssend_init(&again_value, 1, MPI_INT, right, 5, MPI_COMM_WORLD, &again);
    for (int i = 0; i < MESSAGES; i++) {
        values[i] = 100 * round_ + 10 * i + rank;
        if (i % 2 == 0) {
            MPI_Send(&values[i], 1, MPI_INT, right, 5, MPI_COMM_WORLD);
            sends[i] = MPI_REQUEST_NULL;
        } else {
            MPI_Issend(&values[i], 1, MPI_INT, right, 5, MPI_COMM_WORLD, &sends[i]);
        }
    }
    again_value = 7000 + round_ + rank;
    MPI_Start(&again);
    sends[MESSAGES] = again;
    meet();
    meet();
    CHECK(ended(sends, MESSAGES + 1) == 0);
    meet();
    for (int i = 0; i < MESSAGES; i++) {
        if (i == 3) {
            MPI_Mprobe(left, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
            meet();
            MPI_Mrecv(&in, 1, MPI_INT, &message, &status);
        } else {
            MPI_Recv(&in, 1, MPI_INT, left, 5, MPI_COMM_WORLD, &status);
        }
        MUST(in == 100 * round_ + 10 * i + left);
        say_status("received", &status, MPI_INT);
        if (i % 2 == 1)
            MPI_Wait(&sends[i], MPI_STATUS_IGNORE);
        meet();
        CHECK(ended(sends, MESSAGES + 1) == 0);
        meet();
    }
    MPI_Recv(&in, 1, MPI_INT, left, 5, MPI_COMM_WORLD, &status);
    CHECK(in == 7000 + round_ + left);
    MPI_Wait(&again, MPI_STATUS_IGNORE);
    /* A send that is not waited for, and a send to the own rank. */
    MPI_Issend(&values[0], 1, MPI_INT, right, 6, MPI_COMM_WORLD, &sends[0]);
    MPI_Request_free(&sends[0]);
    MPI_Issend(&values[1], 1, MPI_INT, rank, 6, MPI_COMM_WORLD, &sends[1]);
    meet();
    CHECK(ended(&sends[1], 1) == 0);
    meet();
    MPI_Recv(&in, 1, MPI_INT, left, 6, MPI_COMM_WORLD, &status);
    if (size == 1 || left != rank)
        CHECK(in == 100 * round_ + left);
    MPI_Recv(&in, 1, MPI_INT, rank, 6, MPI_COMM_WORLD, &status);
    CHECK(in == values[1]);
    MPI_Wait(&sends[1], MPI_STATUS_IGNORE);
    /* A blocking send. */
    if (rank % 2 == 0) {
        if (rank + 1 < size)
            MPI_Ssend(&values[2], 1, MPI_INT, rank + 1, 7, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&in, 1, MPI_INT, rank - 1, 7, MPI_COMM_WORLD, &status);
        CHECK(in == 100 * round_ + 20 + rank - 1);
    }
    meet();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    MPI_Request_free(&again);
    MPI_Finalize();
    return 0;
}
