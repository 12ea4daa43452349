/*
 * Persistent collectives of all kinds: requests are made once and started in every
 * round, in another order in every process.
 */
#include "check.h"

enum { MOST = 16, KINDS = 22 };

enum {
    BARRIER, BCAST, GATHER, GATHERV, SCATTER, SCATTERV, ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW,
    REDUCE, ALLREDUCE, SCATTERED, BLOCKS, SCAN, EXSCAN, NEIGHBOURS, NEIGHBOURSV, EXCHANGE, EXCHANGEV, EXCHANGEW
};

static MPI_Comm comm, ring;
static MPI_Request requests[KINDS], brief;
static int in[KINDS][2 * MOST], out[KINDS][2 * MOST];
static int counts[MOST], at[MOST], bytes_at[MOST];
static int root = 1;
static MPI_Op add;
static MPI_Datatype pair;

static int value(int kind, int r, int i)
{
    return 100000 * kind + 1000 * (round_ % 50) + 20 * r + i;
}

static void add_twice(void *a, void *b, int *length, MPI_Datatype *type)
{
    int *from = a, *to = b;
    (void)type;
    for (int i = 0; i < *length; i++)
        to[i] = from[i] + to[i];
}

static void make(void)
{
    static int left_right[2] = {1, 1}, displacements[2] = {0, 1}, short_counts[MOST];
    static MPI_Aint places[2] = {0, sizeof(int)};
    static MPI_Datatype types[MOST], both[2];
    MPI_Info info;
    int n = size, periodic = 1;
    both[0] = both[1] = MPI_INT;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Cart_create(comm, 1, &n, &periodic, 0, &ring);
    MPI_Op_create(add_twice, 1, &add);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Info_create(&info);
    for (int r = 0; r < n; r++) {
        counts[r] = 1;
        short_counts[r] = 1;
        at[r] = r;
        bytes_at[r] = r * sizeof(int);
        types[r] = MPI_INT;
    }
#define WITH(kind) comm, info, &requests[kind]
#define AROUND(kind) ring, info, &requests[kind]
    MPI_Barrier_init(WITH(BARRIER));
    MPI_Bcast_init(out[BCAST], 1, pair, root, WITH(BCAST));
    MPI_Gather_init(in[GATHER], 1, MPI_INT, out[GATHER], 1, MPI_INT, root, WITH(GATHER));
    /* Arguments that only the root uses are null elsewhere. */
    int *mine = rank == root ? short_counts : NULL;
    MPI_Gatherv_init(in[GATHERV], 1, MPI_INT, out[GATHERV], mine, rank == root ? at : NULL, MPI_INT, root, WITH(GATHERV));
    MPI_Scatter_init(in[SCATTER], 1, MPI_INT, out[SCATTER], 1, MPI_INT, root, WITH(SCATTER));
    MPI_Scatterv_init(in[SCATTERV], mine, rank == root ? at : NULL, MPI_INT, out[SCATTERV], 1, MPI_INT, root, WITH(SCATTERV));
    MPI_Allgather_init(in[ALLGATHER], 1, MPI_INT, out[ALLGATHER], 1, MPI_INT, WITH(ALLGATHER));
    MPI_Allgatherv_init(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out[ALLGATHERV], counts, at, MPI_INT, WITH(ALLGATHERV));
    MPI_Alltoall_init(in[ALLTOALL], 1, MPI_INT, out[ALLTOALL], 1, MPI_INT, WITH(ALLTOALL));
    MPI_Alltoallv_init(in[ALLTOALLV], counts, at, MPI_INT, out[ALLTOALLV], counts, at, MPI_INT, WITH(ALLTOALLV));
    MPI_Alltoallw_init(in[ALLTOALLW], counts, bytes_at, types, out[ALLTOALLW], counts, bytes_at, types, WITH(ALLTOALLW));
    MPI_Reduce_init(in[REDUCE], out[REDUCE], 2, MPI_INT, add, root, WITH(REDUCE));
    MPI_Allreduce_init(in[ALLREDUCE], out[ALLREDUCE], 2, MPI_INT, add, WITH(ALLREDUCE));
    MPI_Reduce_scatter_init(in[SCATTERED], out[SCATTERED], counts, MPI_INT, MPI_SUM, WITH(SCATTERED));
    MPI_Reduce_scatter_block_init(in[BLOCKS], out[BLOCKS], 1, MPI_INT, MPI_SUM, WITH(BLOCKS));
    MPI_Scan_init(in[SCAN], out[SCAN], 1, MPI_INT, MPI_SUM, WITH(SCAN));
    MPI_Exscan_init(in[EXSCAN], out[EXSCAN], 1, MPI_INT, MPI_SUM, WITH(EXSCAN));
    MPI_Neighbor_allgather_init(in[NEIGHBOURS], 1, MPI_INT, out[NEIGHBOURS], 1, MPI_INT, AROUND(NEIGHBOURS));
    MPI_Neighbor_allgatherv_init(in[NEIGHBOURSV], 1, MPI_INT, out[NEIGHBOURSV], left_right, displacements, MPI_INT, AROUND(NEIGHBOURSV));
    MPI_Neighbor_alltoall_init(in[EXCHANGE], 1, MPI_INT, out[EXCHANGE], 1, MPI_INT, AROUND(EXCHANGE));
    MPI_Neighbor_alltoallv_init(in[EXCHANGEV], left_right, displacements, MPI_INT, out[EXCHANGEV], left_right, displacements,
                                MPI_INT, AROUND(EXCHANGEV));
    MPI_Neighbor_alltoallw_init(in[EXCHANGEW], left_right, places, both, out[EXCHANGEW], left_right, places, both, AROUND(EXCHANGEW));
    MPI_Info_free(&info);
}

static void fill(void)
{
    memset(out, -1, sizeof out);
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < 2 * MOST; i++)
            in[kind][i] = value(kind, rank, i);
    out[ALLGATHERV][rank] = value(ALLGATHERV, rank, 0);
    if (rank == root)
        for (int i = 0; i < 2; i++)
            out[BCAST][i] = value(BCAST, root, i);
}

static int sum(int kind, int i, int from, int to)
{
    int all = 0;
    for (int r = from; r < to; r++)
        all += value(kind, r, i);
    return all;
}

static void look(void)
{
    int n = size, left = (rank + n - 1) % n, right = (rank + 1) % n;
    for (int i = 0; i < 2; i++) {
        MUST(out[BCAST][i] == value(BCAST, root, i));
        MUST(out[ALLREDUCE][i] == sum(ALLREDUCE, i, 0, n));
        MUST(rank != root || out[REDUCE][i] == sum(REDUCE, i, 0, n));
    }
    for (int r = 0; r < n; r++) {
        MUST(rank != root || out[GATHER][r] == value(GATHER, r, 0));
        MUST(rank != root || out[GATHERV][r] == value(GATHERV, r, 0));
        MUST(out[ALLGATHER][r] == value(ALLGATHER, r, 0));
        MUST(out[ALLGATHERV][r] == value(ALLGATHERV, r, 0));
        for (int kind = ALLTOALL; kind <= ALLTOALLW; kind++)
            MUST(out[kind][r] == value(kind, r, rank));
    }
    MUST(out[SCATTER][0] == value(SCATTER, root, rank));
    MUST(out[SCATTERV][0] == value(SCATTERV, root, rank));
    MUST(out[SCATTERED][0] == sum(SCATTERED, rank, 0, n));
    MUST(out[BLOCKS][0] == sum(BLOCKS, rank, 0, n));
    MUST(out[SCAN][0] == sum(SCAN, 0, 0, rank + 1));
    MUST(rank == 0 || out[EXSCAN][0] == sum(EXSCAN, 0, 0, rank));
    for (int kind = NEIGHBOURS; kind <= NEIGHBOURSV; kind++)
        MUST(out[kind][0] == value(kind, left, 0) && out[kind][1] == value(kind, right, 0));
    for (int kind = EXCHANGE; kind <= EXCHANGEW; kind++)
        MUST(out[kind][0] == value(kind, left, 1) && out[kind][1] == value(kind, right, 0));
    for (int kind = 0; kind < KINDS; kind++)
        say("%d: %d %d", kind, out[kind][0], out[kind][1]);
}

/* A request that lives for four rounds; half of the processes free it a round early. */
static void come_and_go(void)
{
    static int one, all;
    int age = round_ % 4;
    if (age == 0) {
        MPI_Allreduce_init(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &brief);
        CHECK(brief != MPI_REQUEST_NULL);
    }
    if (age == 1 || age == 2) {
        one = value(0, rank, age);
        MPI_Start(&brief);
        MPI_Wait(&brief, MPI_STATUS_IGNORE);
        MUST(brief != MPI_REQUEST_NULL && all == sum(0, age, 0, size));
    }
    if (brief != MPI_REQUEST_NULL && (age == 3 || (age == 2 && rank % 2)))
        MPI_Request_free(&brief);
    CHECK((brief == MPI_REQUEST_NULL) == (age == 3 || (age == 2 && rank % 2)));
}

/*
 * The root starts before a collective and may complete its part there; the others start
 * after it.
 */
static void uneven(void)
{
    static MPI_Comm comms[2];
    static MPI_Request started[2];
    static int data[2];
    int sender = round_ % size;
    if (round_ == 0)
        for (int i = 0; i < 2; i++)
            MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    if (round_ % size == 0 && round_ > 0)
        MPI_Request_free(&started[0]);
    if (round_ % size == 0)
        MPI_Bcast_init(&data[0], 1, MPI_INT, 0, comms[0], MPI_INFO_NULL, &started[0]);
    for (int turn = 0; turn < 2; turn++) {
        if ((rank == 0) == (turn == 0)) {
            data[0] = rank == 0 ? value(1, 0, 3) : -1;
            MPI_Start(&started[0]);
        }
        if ((rank == sender) == (turn == 0)) {
            data[1] = rank == sender ? value(2, sender, 3) : -1;
            MPI_Ibcast(&data[1], 1, MPI_INT, sender, comms[1], &started[1]);
        }
        meet();
    }
    MPI_Waitall(2, started, MPI_STATUSES_IGNORE);
    CHECK(data[0] == value(1, 0, 3) && data[1] == value(2, sender, 3));
    if (round_ == rounds - 1) {
        MPI_Request_free(&started[0]);
        for (int i = 0; i < 2; i++)
            MPI_Comm_free(&comms[i]);
    }
}

static void content(void)
{
    int flag;
    MPI_Status status, statuses[KINDS];
    if (round_ == 0)
        make();
    come_and_go();
    meet();
    uneven();
    fill();
    /* Inactive requests are complete. */
    MPI_Test(&requests[round_ % KINDS], &flag, &status);
    CHECK(flag);
    say_status("inactive", &status, MPI_INT);
    meet();
    if (rank % 2)
        MPI_Startall(KINDS, requests);
    else
        for (int kind = 0; kind < KINDS; kind++)
            MPI_Start(&requests[(kind + rank) % KINDS]);
    /* The requests are active, or complete in some processes. */
    meet();
    if (round_ % 3 == 0)
        MPI_Waitall(KINDS, requests, round_ % 2 ? statuses : MPI_STATUSES_IGNORE);
    else if (round_ % 3 == 1)
        for (int done = 0, index; done < KINDS; done++) {
            MPI_Waitany(KINDS, requests, &index, &status);
            MUST(index != MPI_UNDEFINED);
        }
    else
        for (int kind = KINDS; kind-- > 0;)
            do
                MPI_Test(&requests[kind], &flag, MPI_STATUS_IGNORE);
            while (!flag);
    look();
    meet();
    for (int kind = 0; kind < KINDS; kind++)
        MUST(requests[kind] != MPI_REQUEST_NULL);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    for (int kind = 0; kind < KINDS; kind++)
        MPI_Request_free(&requests[kind]);
    if (brief != MPI_REQUEST_NULL)
        MPI_Request_free(&brief);
    MPI_Op_free(&add);
    MPI_Type_free(&pair);
    MPI_Comm_free(&ring);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
