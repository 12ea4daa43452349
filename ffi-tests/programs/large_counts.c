/*
 * Procedures for large counts (MPI 4.0): with small counts of data, and with counts
 * above those of an int for which no data are sent. Also, other additions of MPI
 * 4.1 and 5.0.
 */
#include "check.h"

#ifdef OPEN_MPI /* Version 5.0 has none of them. */
int main(void)
{
    return 0;
}
#else

enum { MOST = 64, MANY = 40 };

static int in[MANY * MOST], out[MANY * MOST];
static MPI_Request persistent, pieces;
static int from_left[3], to_right[3], all[MOST], mine[MOST];
static MPI_Count ones[MOST];
static MPI_Aint at[MOST];
static MPI_Op add;
static MPI_Comm ring;
/* An address that no procedure may access. */
static void *volatile nowhere = (void *)8;

static int value(int r, int i)
{
    return 100000 * (round_ % 90) + 1000 * r + i;
}

static void add_up(void *a, void *b, MPI_Count *length, MPI_Datatype *type)
{
    int *from = a, *to = b;
    MUST(*type == MPI_INT);
    for (MPI_Count i = 0; i < *length; i++)
        to[i] += from[i];
}

static void make(void)
{
    int periodic = 1, n = size, right = (rank + 1) % n;
    for (int r = 0; r < MOST; r++) {
        ones[r] = 1;
        at[r] = r;
    }
    MPI_Op_create_c(add_up, 1, &add);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &n, &periodic, 0, &ring);
    MPI_Send_init_c(to_right, 3, MPI_INT, right, 5, MPI_COMM_WORLD, &persistent);
    MPI_Alltoallv_init_c(mine, ones, at, MPI_INT, all, ones, at, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &pieces);
}

/* Messages in flight during a collective, where the state may be saved. */
static void messages(void)
{
    int left = (rank + size - 1) % size, right = (rank + 1) % size, flag = 0;
    MPI_Request two[2];
    MPI_Status status[2];
    MPI_Count count, elements;
    for (int i = 0; i < MANY; i++)
        in[i] = value(rank, i);
    MPI_Isend_c(in, MANY, MPI_INT, right, 1, MPI_COMM_WORLD, &two[0]);
    MPI_Send_c(in, 7, MPI_INT, right, 2, MPI_COMM_WORLD);
    meet();
    MPI_Irecv_c(out, MANY + 5, MPI_INT, left, 1, MPI_COMM_WORLD, &two[1]);
    while (!flag)
        MPI_Request_get_status_all(2, two, &flag, status);
    MPI_Waitall(2, two, status);
    MPI_Get_count_c(&status[1], MPI_INT, &count);
    MPI_Get_elements_c(&status[1], MPI_BYTE, &elements);
    CHECK(count == MANY && elements == 4 * MANY && out[MANY - 1] == value(left, MANY - 1));
    MPI_Recv_c(out, 7, MPI_INT, left, 2, MPI_COMM_WORLD, &status[0]);
    MPI_Get_count_c(&status[0], MPI_DOUBLE, &count);
    CHECK(count == MPI_UNDEFINED && out[6] == value(left, 6));
    MPI_Sendrecv_c(in, 5, MPI_INT, right, 3, out, 5, MPI_INT, left, 3, MPI_COMM_WORLD, &status[0]);
    MPI_Status_get_source(&status[0], &flag);
    CHECK(flag == left && out[4] == value(left, 4));
    to_right[0] = to_right[1] = to_right[2] = value(rank, 99);
    MPI_Start(&persistent);
    meet();
    MPI_Recv_c(from_left, 3, MPI_INT, left, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&persistent, MPI_STATUS_IGNORE);
    CHECK(from_left[2] == value(left, 99));
}

static void collectives(void)
{
    MPI_Request request;
    MPI_Count counts[MOST], two[2] = {1, 1};
    MPI_Aint places[MOST], around[2] = {0, 1};
    int root = round_ % size, total = 0, before = 0, left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (int r = 0; r < size; r++) {
        counts[r] = r + 1;
        places[r] = before;
        before += r + 1;
        total += value(r, 0);
        mine[r] = value(rank, r);
    }
    for (int i = 0; i < MANY; i++)
        in[i] = value(rank, i);
    MPI_Allreduce_c(in, out, 1, MPI_INT, add, MPI_COMM_WORLD);
    CHECK(out[0] == total);
    memset(out, 0, sizeof out);
    MPI_Allgatherv_c(in, rank + 1, MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < size; r++)
        MUST(out[places[r] + r] == value(r, r));
    /* Arguments that only the root uses have no valid address elsewhere. */
    MPI_Count *theirs = rank == root ? counts : nowhere;
    MPI_Aint *where = rank == root ? places : nowhere;
    MPI_Gatherv_c(in, rank + 1, MPI_INT, out, theirs, where, MPI_INT, root, MPI_COMM_WORLD);
    MPI_Scatterv_c(out, theirs, where, MPI_INT, in, rank + 1, MPI_INT, root, MPI_COMM_WORLD);
    CHECK(in[rank] == value(rank, rank));
    MPI_Ialltoallv_c(mine, ones, at, MPI_INT, all, ones, at, MPI_INT, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int r = 0; r < size; r++)
        MUST(all[r] == value(r, rank));
    memset(all, 0, sizeof all);
    MPI_Start(&pieces);
    MPI_Wait(&pieces, MPI_STATUS_IGNORE);
    for (int r = 0; r < size; r++)
        MUST(all[r] == value(r, rank));
    for (int r = 0; r < size; r++)
        all[r] = value(rank, r);
    MPI_Alltoallv_c(MPI_IN_PLACE, nowhere, nowhere, MPI_INT, all, ones, at, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < size; r++)
        MUST(all[r] == value(r, rank));
    MPI_Reduce_scatter_c(mine, out, ones, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MUST(out[0] == total + size * rank);
    MPI_Neighbor_alltoallv_c(in, two, around, MPI_INT, out, two, around, MPI_INT, ring);
    say("neighbours %d and %d: %d %d", left, right, out[0], out[1]);
}

/* Large counts in procedures that only return information. */
static void asking(void)
{
    MPI_Datatype page, large;
    MPI_Count size_of, lower, extent, packed, count;
    MPI_Status status;
    MPI_Type_vector_c(1024, 1, 2, MPI_INT, &page);
    MPI_Type_contiguous_c(1 << 22, page, &large);
    MPI_Type_commit(&page);
    MPI_Type_commit(&large);
    MPI_Type_size_c(large, &size_of);
    MPI_Type_get_extent_c(large, &lower, &extent);
    say("size %lld extent %lld %lld", (long long)size_of, (long long)lower, (long long)extent);
    CHECK(size_of == (MPI_Count)4096 << 22);
    MPI_Type_get_true_extent_c(large, &lower, &extent);
    MPI_Pack_size_c((MPI_Count)1 << 33, MPI_INT, MPI_COMM_WORLD, &packed);
    say("true extent %lld packed %lld", (long long)extent, (long long)packed);
    MPI_Pack_size_c(10, page, MPI_COMM_WORLD, &packed);
    say("packed %lld", (long long)packed);
    memset(&status, 0, sizeof status);
    MPI_Status_set_elements_c(&status, MPI_BYTE, (MPI_Count)1 << 40);
    MPI_Get_count_c(&status, MPI_INT, &count);
    CHECK(count == (MPI_Count)1 << 38);
    MPI_Get_elements_c(&status, MPI_BYTE, &count);
    CHECK(count == (MPI_Count)1 << 40);
    MPI_Status_set_tag(&status, 42);
    MPI_Status_get_tag(&status, &points);
    CHECK(points == 42 && status.MPI_TAG == 42);
    MPI_Type_free(&large);
    MPI_Type_free(&page);
    int number = MPI_Comm_toint(ring);
    CHECK(MPI_Comm_fromint(number) == ring);
    CHECK(MPI_Type_fromint(MPI_Type_toint(MPI_DOUBLE)) == MPI_DOUBLE && MPI_Op_fromint(MPI_Op_toint(add)) == add);
}

/*
 * More elements than an int can count, without data to send. The library may
 * choose unspecified results.
 */
static void long_and_empty(void)
{
    const MPI_Count many = ((MPI_Count)1 << 33) + rank % 2;
    int left = (rank + size - 1) % size, right = (rank + 1) % size, root = round_ % size;
    MPI_Datatype empty, open = rank == root ? MPI_INT : MPI_DATATYPE_NULL;
    MPI_Request two[2];
    MPI_Status status[2];
    MPI_Count count;
    MPI_Type_contiguous(0, MPI_INT, &empty);
    MPI_Type_commit(&empty);
    MPI_Isend_c(in, many, empty, right, 11, MPI_COMM_WORLD, &two[0]);
    meet();
    MPI_Irecv_c(out, many, empty, left, 11, MPI_COMM_WORLD, &two[1]);
    MPI_Waitall(2, two, status);
    MPI_Get_count_c(&status[1], empty, &count);
    say("empty: from %d, count %lld", status[1].MPI_SOURCE, (long long)count);
    MPI_Sendrecv_c(in, many, empty, right, 12, out, many, empty, left, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Bcast_c(in, many, empty, root, MPI_COMM_WORLD);
    MPI_Allgather_c(MPI_IN_PLACE, many, MPI_DATATYPE_NULL, in, many, empty, MPI_COMM_WORLD);
    MPI_Gather_c(&rank, 1, MPI_INT, out, rank == root ? 1 : many, open, root, MPI_COMM_WORLD);
    if (rank == root)
        CHECK(out[left] == left && out[rank] == rank);
    MPI_Type_free(&empty);
}

static void packing(void)
{
    char buffer[64];
    MPI_Count position = 0;
    int two[2] = {value(rank, 1), 0};
    MPI_Pack_c(two, 1, MPI_INT, buffer, sizeof buffer, &position, MPI_COMM_WORLD);
    say("position %lld", (long long)position);
    position = 0;
    MPI_Unpack_c(buffer, sizeof buffer, &position, &two[1], 1, MPI_INT, MPI_COMM_WORLD);
    CHECK(position == 4 && two[0] == two[1]);
}

/* A part of a matrix, and blocks at displacements. */
static void parts(void)
{
    MPI_Count sizes[2] = {4, 4}, part[2] = {2, 2}, from[2] = {1, 1}, lengths[2] = {1, 2}, places[2] = {4, 40}, position = 0;
    MPI_Datatype types[2] = {MPI_INT, MPI_INT}, inner, blocks;
    int matrix[16], packed[7];
    for (int i = 0; i < 16; i++)
        matrix[i] = value(rank, i);
    MPI_Type_create_subarray_c(2, sizes, part, from, MPI_ORDER_C, MPI_INT, &inner);
    MPI_Type_create_struct_c(2, lengths, places, types, &blocks);
    MPI_Type_commit(&inner);
    MPI_Type_commit(&blocks);
    MPI_Pack_c(matrix, 1, inner, packed, sizeof packed, &position, MPI_COMM_WORLD);
    MPI_Pack_c(matrix, 1, blocks, packed, sizeof packed, &position, MPI_COMM_WORLD);
    CHECK(position == sizeof packed && packed[0] == matrix[5] && packed[1] == matrix[6] && packed[2] == matrix[9]);
    CHECK(packed[3] == matrix[10] && packed[4] == matrix[1] && packed[5] == matrix[10] && packed[6] == matrix[11]);
    MPI_Type_free(&inner);
    MPI_Type_free(&blocks);
}

static void content(void)
{
    if (round_ == 0)
        make();
    messages();
    meet();
    collectives();
    asking();
    long_and_empty();
    packing();
    parts();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    MPI_Request_free(&persistent);
    MPI_Request_free(&pieces);
    MPI_Op_free(&add);
    MPI_Comm_free(&ring);
    MPI_Finalize();
    return 0;
}
#endif
