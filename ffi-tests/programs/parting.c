/* Communicators that some members free before others, and while messages are in flight. */
#include "check.h"

/* Freed by rank 0 a round later than by the others. */
static MPI_Comm late = MPI_COMM_NULL;

/* Freed by all members with a message in flight; its ranks are not those of the world. */
static void freed_by_all(void)
{
    MPI_Comm comm, other;
    MPI_Request requests[2];
    int here, got = -1, value = 100 * rank + round_;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm);
    MPI_Comm_rank(comm, &here);
    MPI_Irecv(&got, 1, MPI_INT, (here + 1) % size, 3, comm, &requests[0]);
    MPI_Isend(&value, 1, MPI_INT, (here + size - 1) % size, 3, comm, &requests[1]);
    MPI_Comm_free(&comm);
    CHECK(comm == MPI_COMM_NULL);
    /* The new communicator may get the freed handle. */
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &other);
    meet();
    meet();
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    say("by all: %d", got);
    MPI_Comm_free(&other);
}

/* Rank 0 sends after the odd ranks have freed the communicator. */
static void freed_by_some(void)
{
    MPI_Comm comm;
    MPI_Request request;
    MPI_Status status;
    int got = -1, value = 100 + round_;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (rank % 2) {
        MPI_Irecv(&got, 1, MPI_INT, 0, MPI_ANY_TAG, comm, &request);
        MPI_Comm_free(&comm);
    }
    meet();
    meet();
    for (int to = 1; rank == 0 && to < size; to += 2)
        MPI_Ssend(&value, 1, MPI_INT, to, round_, comm);
    if (rank % 2) {
        MPI_Wait(&request, &status);
        say("by some: %d, tag %d", got, status.MPI_TAG);
    } else {
        meet();
        MPI_Comm_free(&comm);
    }
    if (rank % 2)
        meet();
}

static void content(void)
{
    freed_by_all();
    freed_by_some();
    if (rank == 0 && late != MPI_COMM_NULL)
        MPI_Comm_free(&late);
    MPI_Comm_dup(MPI_COMM_WORLD, &late);
    if (rank != 0)
        MPI_Comm_free(&late);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    if (rank == 0)
        MPI_Comm_free(&late);
    MPI_Finalize();
    return 0;
}
