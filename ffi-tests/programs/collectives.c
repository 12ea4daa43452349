/*
 * Blocking and nonblocking collectives of all kinds except those of
 * neighbourhoods, on all processes and on some, also in place.
 */
#include "check.h"

enum { MOST = 16 };

static int n, me;
static MPI_Comm comm;

static int value(int r, int i)
{
    return 1000 * round_ + 100 * r + i;
}

static int total(int i, int upto)
{
    int sum = 0;
    for (int r = 0; r < upto; r++)
        sum += value(r, i);
    return sum;
}

static void finish(MPI_Request *request, int nonblocking)
{
    if (nonblocking) {
        MPI_Status status;
        if (nonblocking == 2)
            meet();
        MPI_Wait(request, &status);
        MUST(*request == MPI_REQUEST_NULL);
    }
}

/* Calls NAME or INAME. */
#define CALL(NAME, INAME, ...) do { \
        MPI_Request request; \
        if (nonblocking) \
            INAME(__VA_ARGS__, comm, &request); \
        else \
            NAME(__VA_ARGS__, comm); \
        finish(&request, nonblocking); \
    } while (0)

static void rooted(int nonblocking, int root)
{
    int one[2] = {value(me, 0), value(me, 1)}, all[2 * MOST], counts[MOST], at[MOST], sums[2];
    int got[2 * MOST];
    MPI_Request request;
    int buffer = me == root ? value(root, 7) : -1;
    CALL(MPI_Bcast, MPI_Ibcast, &buffer, 1, MPI_INT, root);
    MUST(buffer == value(root, 7));
    memset(all, -1, sizeof all);
    CALL(MPI_Gather, MPI_Igather, one, 2, MPI_INT, all, 2, MPI_INT, root);
    for (int r = 0; me == root && r < n; r++)
        MUST(all[2 * r] == value(r, 0) && all[2 * r + 1] == value(r, 1));
    for (int r = 0; r < n; r++) {
        counts[r] = 1 + r % 2;
        at[r] = 2 * (n - 1 - r);
    }
    memset(all, -1, sizeof all);
    CALL(MPI_Gatherv, MPI_Igatherv, one, counts[me], MPI_INT, all, counts, at, MPI_INT, root);
    for (int r = 0; me == root && r < n; r++)
        MUST(all[at[r]] == value(r, 0) && all[at[r] + 1] == (r % 2 ? value(r, 1) : -1));
    for (int i = 0; i < 2 * n; i++)
        all[i] = value(root, i);
    CALL(MPI_Scatter, MPI_Iscatter, all, 2, MPI_INT, got, 2, MPI_INT, root);
    MUST(got[0] == value(root, 2 * me) && got[1] == value(root, 2 * me + 1));
    CALL(MPI_Scatterv, MPI_Iscatterv, all, counts, at, MPI_INT, got, counts[me], MPI_INT, root);
    MUST(got[0] == value(root, at[me]));
    CALL(MPI_Reduce, MPI_Ireduce, one, sums, 2, MPI_INT, MPI_SUM, root);
    MUST(me != root || (sums[0] == total(0, n) && sums[1] == total(1, n)));
    /* in place */
    sums[0] = value(me, 0), sums[1] = value(me, 1);
    const void *send = me == root ? MPI_IN_PLACE : (const void *)sums;
    CALL(MPI_Reduce, MPI_Ireduce, send, sums, 2, MPI_INT, MPI_MAX, root);
    MUST(me != root || sums[1] == value(n - 1, 1));
    all[2 * me] = value(me, 0), all[2 * me + 1] = value(me, 1);
    send = me == root ? MPI_IN_PLACE : (const void *)one;
    CALL(MPI_Gather, MPI_Igather, send, 2, MPI_INT, all, 2, MPI_INT, root);
    for (int r = 0; me == root && r < n; r++)
        MUST(all[2 * r] == value(r, 0) && all[2 * r + 1] == value(r, 1));
    for (int i = 0; i < 2 * n; i++)
        all[i] = value(root, i);
    if (nonblocking)
        MPI_Iscatter(all, 2, MPI_INT, me == root ? MPI_IN_PLACE : (void *)got, 2, MPI_INT, root, comm, &request);
    else
        MPI_Scatter(all, 2, MPI_INT, me == root ? MPI_IN_PLACE : (void *)got, 2, MPI_INT, root, comm);
    finish(&request, nonblocking);
    MUST(me == root || got[0] == value(root, 2 * me));
}

static void to_all(int nonblocking)
{
    int one[2] = {value(me, 0), value(me, 1)}, all[2 * MOST], counts[MOST], at[MOST], sums[2];
    CALL(MPI_Allgather, MPI_Iallgather, one, 2, MPI_INT, all, 2, MPI_INT);
    for (int r = 0; r < n; r++)
        MUST(all[2 * r] == value(r, 0) && all[2 * r + 1] == value(r, 1));
    memset(all, -1, sizeof all);
    all[me] = value(me, 5);
    CALL(MPI_Allgather, MPI_Iallgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 1, MPI_INT);
    for (int r = 0; r < n; r++)
        MUST(all[r] == value(r, 5));
    for (int r = 0; r < n; r++) {
        counts[r] = 1 + r % 2;
        at[r] = 2 * (n - 1 - r);
    }
    memset(all, -1, sizeof all);
    CALL(MPI_Allgatherv, MPI_Iallgatherv, one, counts[me], MPI_INT, all, counts, at, MPI_INT);
    for (int r = 0; r < n; r++)
        MUST(all[at[r]] == value(r, 0) && all[at[r] + 1] == (r % 2 ? value(r, 1) : -1));
    CALL(MPI_Allreduce, MPI_Iallreduce, one, sums, 2, MPI_INT, MPI_SUM);
    MUST(sums[0] == total(0, n) && sums[1] == total(1, n));
    sums[0] = value(me, 3);
    CALL(MPI_Allreduce, MPI_Iallreduce, MPI_IN_PLACE, sums, 1, MPI_INT, MPI_SUM);
    MUST(sums[0] == total(3, n));
    sums[0] = -1;
    CALL(MPI_Scan, MPI_Iscan, one, sums, 1, MPI_INT, MPI_SUM);
    MUST(sums[0] == total(0, me + 1));
    sums[0] = -1;
    CALL(MPI_Exscan, MPI_Iexscan, one, sums, 1, MPI_INT, MPI_SUM);
    MUST(me == 0 ? sums[0] == -1 : sums[0] == total(0, me));
    for (int i = 0; i < 2 * n; i++)
        all[i] = value(me, i);
    CALL(MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, all, sums, 2, MPI_INT, MPI_SUM);
    MUST(sums[0] == total(2 * me, n) && sums[1] == total(2 * me + 1, n));
    CALL(MPI_Reduce_scatter, MPI_Ireduce_scatter, all, sums, counts, MPI_INT, MPI_SUM);
    int start = 0;
    for (int r = 0; r < me; r++)
        start += counts[r];
    MUST(sums[0] == total(start, n));
    struct { double number; int index; } pair = {1.5 * ((me + round_) % n), me}, most;
    CALL(MPI_Allreduce, MPI_Iallreduce, &pair, &most, 1, MPI_DOUBLE_INT, MPI_MAXLOC);
    say("maxloc %g at %d", most.number, most.index);
    if (nonblocking) {
        MPI_Request request;
        MPI_Ibarrier(comm, &request);
        finish(&request, nonblocking);
    } else {
        MPI_Barrier(comm);
    }
}

static void exchange(int nonblocking)
{
    int send[2 * MOST], receive[2 * MOST], counts[MOST], at[MOST], bytes[MOST];
    MPI_Datatype types[MOST], pair;
    for (int r = 0; r < n; r++) {
        send[2 * r] = value(me, r);
        send[2 * r + 1] = -value(me, r);
    }
    memset(receive, -1, sizeof receive);
    CALL(MPI_Alltoall, MPI_Ialltoall, send, 2, MPI_INT, receive, 2, MPI_INT);
    for (int r = 0; r < n; r++)
        MUST(receive[2 * r] == value(r, me) && receive[2 * r + 1] == -value(r, me));
    memcpy(receive, send, sizeof send);
    CALL(MPI_Alltoall, MPI_Ialltoall, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, receive, 2, MPI_INT);
    for (int r = 0; r < n; r++)
        MUST(receive[2 * r] == value(r, me));
    for (int r = 0; r < n; r++) {
        counts[r] = 1 + (r + me) % 2;
        at[r] = 2 * r;
        bytes[r] = 2 * r * (int)sizeof(int);
    }
    memset(receive, -1, sizeof receive);
    CALL(MPI_Alltoallv, MPI_Ialltoallv, send, counts, at, MPI_INT, receive, counts, at, MPI_INT);
    for (int r = 0; r < n; r++)
        MUST(receive[2 * r] == value(r, me) && receive[2 * r + 1] == (counts[r] == 2 ? -value(r, me) : -1));
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    for (int r = 0; r < n; r++) {
        types[r] = (r + me) % 2 ? pair : MPI_INT;
        counts[r] = 1;
    }
    memset(receive, -1, sizeof receive);
    MPI_Request request;
    if (nonblocking) {
        MPI_Datatype *copy = malloc(sizeof types), *other = malloc(sizeof types);
        memcpy(copy, types, sizeof types);
        memcpy(other, types, sizeof types);
        MPI_Ialltoallw(send, counts, bytes, copy, receive, counts, bytes, other, comm, &request);
        finish(&request, nonblocking);
        free(copy);
        free(other);
    } else {
        MPI_Alltoallw(send, counts, bytes, types, receive, counts, bytes, types, comm);
    }
    MPI_Type_free(&pair);
    for (int r = 0; r < n; r++)
        MUST(receive[2 * r] == value(r, me) && receive[2 * r + 1] == ((r + me) % 2 ? -value(r, me) : -1));
}

static void everything(MPI_Comm on, const char *name)
{
    comm = on;
    MPI_Comm_size(comm, &n);
    MPI_Comm_rank(comm, &me);
    for (int nonblocking = 0; nonblocking < 3; nonblocking++) {
        for (int root = 0; root < n; root++)
            rooted(nonblocking, root);
        to_all(nonblocking);
        exchange(nonblocking);
        say("%s %d: done", name, nonblocking);
    }
}

/* Several collectives overlap, and complete in another order than they start. */
static void overlapping(MPI_Comm half)
{
    int one = rank, sum[3] = {-1, -1, -1};
    MPI_Request requests[3];
    MPI_Iallreduce(&one, &sum[0], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Iallreduce(&one, &sum[1], 1, MPI_INT, MPI_MAX, half, &requests[1]);
    meet();
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[2]);
    int flag = 0;
    while (!flag)
        MPI_Test(&requests[2], &flag, MPI_STATUS_IGNORE);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    say("overlapping %d %d", sum[0], sum[1]);
}

static MPI_Comm half = MPI_COMM_NULL;

static void content(void)
{
    if (half == MPI_COMM_NULL)
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    everything(MPI_COMM_WORLD, "world");
    everything(half, "half");
    everything(MPI_COMM_SELF, "self");
    overlapping(half);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
