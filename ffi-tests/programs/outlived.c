/*
 * Persistent requests whose communicator has been freed. Such requests can be started
 * until they are freed themselves.
 */
#include "check.h"

enum { VALUES = 8, EVERY = 5 };

static MPI_Request sum, send, receive, pair[2];
static double in[VALUES], out[VALUES];
static int sent, got, left, right, parts_out[4], parts_in[4], has_requests;

static void make(void)
{
    MPI_Comm comm, parts;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Send_init(&sent, 1, MPI_INT, right, 3, comm, &send);
    MPI_Recv_init(&got, 1, MPI_INT, left, 3, comm, &receive);
    MPI_Allreduce_init(in, out, VALUES, MPI_DOUBLE, MPI_SUM, comm, MPI_INFO_NULL, &sum);
    /* Some ranks free the communicator later than others. */
    if (rank % 2)
        meet();
    MPI_Comm_free(&comm);
    if (rank % 2 == 0)
        meet();
    MPI_Comm_dup(MPI_COMM_WORLD, &parts);
    MPI_Psend_init(parts_out, 4, 1, MPI_INT, right, 5, parts, MPI_INFO_NULL, &pair[0]);
    MPI_Precv_init(parts_in, 4, 1, MPI_INT, left, 5, parts, MPI_INFO_NULL, &pair[1]);
    MPI_Comm_free(&parts);
    has_requests = 1;
}

static void unmake(void)
{
    MPI_Request *all[] = {&sum, &send, &receive, &pair[0], &pair[1]};
    for (int i = 0; i < 5; i++)
        MPI_Request_free(all[i]);
    has_requests = 0;
}

static void content(void)
{
    MPI_Comm other;
    MPI_Status status;
    int rc;
    if (round_ % EVERY == 0)
        make();
    meet();
    for (int i = 0; i < VALUES; i++)
        in[i] = rank + i + round_ * 0.5;
    rc = MPI_Start(&sum);
    MUST(rc == MPI_SUCCESS);
    MPI_Wait(&sum, MPI_STATUS_IGNORE);
    say("sum %.17g", out[VALUES - 1]);
    meet();
    /* The message arrives before the receive is started. */
    sent = 10 * round_ + rank;
    MPI_Start(&send);
    meet();
    /* Messages of one communicator are not received on another one. */
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, other, &rc, MPI_STATUS_IGNORE);
    CHECK(!rc);
    meet();
    MPI_Start(&receive);
    MPI_Wait(&receive, &status);
    say_status("received", &status, MPI_INT);
    CHECK(got == 10 * round_ + left);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Comm_free(&other);
    meet();
    for (int i = 0; i < 4; i++)
        parts_out[i] = 100 * round_ + rank + i;
    MPI_Startall(2, pair);
    for (int i = 3; i >= 0; i--)
        MPI_Pready(i, pair[0]);
    MPI_Waitall(2, pair, MPI_STATUSES_IGNORE);
    CHECK(parts_in[0] == 100 * round_ + left && parts_in[3] == 100 * round_ + left + 3);
    meet();
    if (round_ % EVERY == EVERY - 1)
        unmake();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    start_rounds(argc, argv);
    right = (rank + 1) % size;
    left = (rank + size - 1) % size;
    all_rounds(content);
    if (has_requests)
        unmake();
    MPI_Finalize();
    return 0;
}
