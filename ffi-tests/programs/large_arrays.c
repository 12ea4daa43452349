/*
 * Collectives of procedures for large counts (MPI 4.0): blocks that are gigabytes
 * apart, with displacements that do not fit in an int, and every kind of
 * reduction.
 */
#include "check.h"
#include <sys/mman.h>

#ifdef OPEN_MPI /* Version 5.0 has no such procedures. */
int main(void)
{
    return 0;
}
#else

enum { MOST = 16, BLOCK = 5 };

/*
 * In integers: 4 GiB, so that neither an int nor 32 bits reach the second
 * block.
 */
#define APART (((MPI_Aint)1 << 30) + 1)

static int *far, mine[MOST * BLOCK], out[MOST * BLOCK];
static MPI_Count blocks[MOST];
static MPI_Aint apart[MOST], bytes_apart[MOST], close_by[MOST], bytes_close_by[MOST];
static MPI_Datatype types[MOST];
static MPI_Comm ring;
static MPI_Op last;
static MPI_Request everywhere, sums;

static int value(int r, int i)
{
    return 100000 * (round_ % 90) + 1000 * r + i;
}

/* Not commutative. */
static void take_last(void *a, void *b, MPI_Count *length, MPI_Datatype *type)
{
    int *from = a, *to = b;
    MUST(*type == MPI_INT);
    for (MPI_Count i = 0; i < *length; i++)
        to[i] = from[i] ^ (2 * to[i]);
}

static void make(void)
{
    int periodic = 1, n = size;
    far = mmap(NULL, size * APART * sizeof *far, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (far == MAP_FAILED)
        MPI_Abort(MPI_COMM_WORLD, 3);
    for (int r = 0; r < MOST; r++) {
        blocks[r] = BLOCK;
        apart[r] = r * APART;
        bytes_apart[r] = r * APART * (MPI_Aint)sizeof *far;
        close_by[r] = r * BLOCK;
        bytes_close_by[r] = r * BLOCK * (MPI_Aint)sizeof *far;
        types[r] = MPI_INT;
    }
    MPI_Op_create_c(take_last, 0, &last);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &n, &periodic, 0, &ring);
    MPI_Alltoallw_init_c(mine, blocks, bytes_close_by, types, far, blocks, bytes_apart, types, MPI_COMM_WORLD, MPI_INFO_NULL, &everywhere);
    MPI_Allreduce_init_c(mine, out, MOST, MPI_INT, last, MPI_COMM_WORLD, MPI_INFO_NULL, &sums);
}

static void fill(void)
{
    for (int i = 0; i < size * BLOCK; i++)
        mine[i] = value(rank, i);
}

/*
 * True if block `number` has arrived from rank `from`; clears the block. The block
 * contains the data for all ranks, or those for this rank only.
 */
static int has_come(int number, int from, int is_for_all)
{
    int *block = far + number * APART, first = is_for_all ? 0 : rank * BLOCK, is = 1;
    for (int i = 0; i < BLOCK; i++) {
        is = is && block[i] == value(from, first + i);
        block[i] = 0;
    }
    return is;
}

static void expect_all(const char *what, int are_for_all)
{
    for (int r = 0; r < size; r++)
        expect(has_come(r, r, are_for_all), what, __LINE__);
}

static void blocks_far_apart(void)
{
    MPI_Request request;
    MPI_Count two[2] = {BLOCK, BLOCK};
    MPI_Aint places[2] = {0, APART};
    int root = round_ % size, left = (rank + size - 1) % size, right = (rank + 1) % size;
    fill();
    MPI_Allgatherv_c(mine, BLOCK, MPI_INT, far, blocks, apart, MPI_INT, MPI_COMM_WORLD);
    expect_all("allgatherv", 1);
    MPI_Alltoallv_c(mine, blocks, close_by, MPI_INT, far, blocks, apart, MPI_INT, MPI_COMM_WORLD);
    expect_all("alltoallv", 0);
    meet();
    MPI_Ialltoallw_c(mine, blocks, bytes_close_by, types, far, blocks, bytes_apart, types, MPI_COMM_WORLD, &request);
    meet();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect_all("ialltoallw", 0);
    MPI_Alltoallw_c(mine, blocks, bytes_close_by, types, far, blocks, bytes_apart, types, MPI_COMM_WORLD);
    expect_all("alltoallw", 0);
    MPI_Start(&everywhere);
    meet();
    MPI_Wait(&everywhere, MPI_STATUS_IGNORE);
    expect_all("alltoallw_init", 0);
    MPI_Gatherv_c(mine, BLOCK, MPI_INT, far, blocks, apart, MPI_INT, root, MPI_COMM_WORLD);
    if (rank == root)
        for (int r = 0; r < size; r++)
            memcpy(out, far + r * APART, sizeof out / MOST);
    MPI_Scatterv_c(far, blocks, apart, MPI_INT, out, BLOCK, MPI_INT, root, MPI_COMM_WORLD);
    CHECK(out[0] == value(rank, 0) && out[BLOCK - 1] == value(rank, BLOCK - 1));
    if (rank == root)
        expect_all("gatherv", 1);
    MPI_Neighbor_allgatherv_c(mine, BLOCK, MPI_INT, far, two, places, MPI_INT, ring);
    CHECK(has_come(0, left, 1) && has_come(1, right, 1));
    MPI_Ineighbor_alltoallw_c(mine, two, bytes_close_by, types, far, two, bytes_apart, types, ring, &request);
    meet();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    say("neighbours %d %d", far[0], far[APART]);
    MPI_Neighbor_alltoallv_c(mine, two, close_by, MPI_INT, far, two, apart, MPI_INT, ring);
    say("neighbours %d %d", far[0], far[APART]);
}

static void reductions(void)
{
    MPI_Request request;
    int root = round_ % size;
    fill();
    memset(out, 0, sizeof out);
    MPI_Allreduce_c(mine, out, MOST, MPI_INT, last, MPI_COMM_WORLD);
    say("allreduce %d %d", out[0], out[MOST - 1]);
    MPI_Iscan_c(mine, out, MOST, MPI_INT, last, MPI_COMM_WORLD, &request);
    meet();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    say("scan %d", out[1]);
    MPI_Exscan_c(mine, out, MOST, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    say("exscan %d", rank ? out[2] : 0);
    MPI_Reduce_c(mine, out, MOST, MPI_INT, last, root, MPI_COMM_WORLD);
    say("reduce %d", rank == root ? out[3] : 0);
    MPI_Reduce_scatter_block_c(mine, out, BLOCK, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    say("block %d", out[BLOCK - 1]);
    MPI_Ireduce_scatter_c(mine, out, blocks, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    say("scatter %d", out[0]);
    MPI_Reduce_local_c(mine, out, BLOCK, MPI_INT, last);
    say("local %d", out[1]);
    MPI_Start(&sums);
    meet();
    MPI_Wait(&sums, MPI_STATUS_IGNORE);
    say("allreduce_init %d", out[4]);
}

static void content(void)
{
    if (round_ == 0)
        make();
    blocks_far_apart();
    meet();
    reductions();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    MPI_Request_free(&everywhere);
    MPI_Request_free(&sums);
    MPI_Op_free(&last);
    MPI_Comm_free(&ring);
    MPI_Finalize();
    return 0;
}
#endif
