/*
 * Large collectives, which transfer their data in many pieces. Transfers in
 * flight when a process fails must not reach memory that has been rolled back.
 *
 * Every buffer is checked before it is overwritten and afterwards, bit by bit.
 * Floating-point sums depend on the order of the additions.
 *
 *     large [rounds [pause in milliseconds [size in KiB]]]
 *
 * With a size, only that one is used.
 */
#include "check.h"

enum { SIZES = 3 };
static int sizes[SIZES] = {3 << 10, 96 << 10, 768 << 10}, largest = 768 << 10;
static double *from, *to;
static MPI_Comm pair, grid;
static MPI_Op product;
static MPI_Datatype gappy;

static uint64_t sum_of(const void *data, size_t bytes)
{
    const uint64_t *words = data;
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < bytes / 8; i++)
        sum = (sum ^ words[i]) * 1099511628211u;
    return sum;
}

/* Numbers of very different sizes: 1e-8 to 1e8. */
static void fill(double *data, int count, uint64_t seed)
{
    static const double scale[] = {1e-8, 1e-3, 1, 1e4, 1e8};
    uint64_t state = seed * 6364136223846793005u + 1442695040888963407u;
    for (int i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        data[i] = ((double)(state >> 11) / 9007199254740992.0 - 0.5) * scale[(state >> 3) % 5];
    }
}

/*
 * Composes affine maps (two numbers and a gap). This is neither commutative
 * nor, in floating point, associative.
 */
static void compose(void *in, void *inout, int *length, MPI_Datatype *type)
{
    (void)type;
    double *a = in, *b = inout;
    for (int i = 0; i < *length; i++) {
        b[3 * i + 1] = a[3 * i] * b[3 * i + 1] + a[3 * i + 1];
        b[3 * i] = a[3 * i] * b[3 * i];
    }
}

static void before(const char *what, int bytes)
{
    say("%s of %d: before %016llx", what, bytes, (unsigned long long)sum_of(to, 2 * (size_t)largest));
    fill(from, largest / 8, 1000 * round_ + rank + bytes);
}

static void after(void)
{
    say("after %016llx", (unsigned long long)sum_of(to, 2 * (size_t)largest));
}

#define TRY(what, call) do { before(what, bytes); MUST((call) == MPI_SUCCESS); after(); } while (0)

static void moves(int bytes, MPI_Comm comm)
{
    int members, me, count = bytes / 8, counts[64], places[64];
    MPI_Comm_size(comm, &members);
    MPI_Comm_rank(comm, &me);
    int each = count / members, root = round_ % members;
    for (int i = 0; i < members; i++) {
        counts[i] = each - i % 2;
        places[i] = i * each;
    }
    TRY("bcast", MPI_Bcast(to, count, MPI_DOUBLE, root, comm));
    TRY("gather", MPI_Gather(from, each, MPI_DOUBLE, to, each, MPI_DOUBLE, root, comm));
    TRY("gatherv", MPI_Gatherv(from, counts[me], MPI_DOUBLE, to, counts, places, MPI_DOUBLE, root, comm));
    TRY("scatter", MPI_Scatter(from, each, MPI_DOUBLE, me == root ? MPI_IN_PLACE : to, each, MPI_DOUBLE, root, comm));
    TRY("scatterv", MPI_Scatterv(from, counts, places, MPI_DOUBLE, to, counts[me], MPI_DOUBLE, root, comm));
    TRY("allgather", MPI_Allgather(from, each, MPI_DOUBLE, to, each, MPI_DOUBLE, comm));
    TRY("allgather in place", MPI_Allgather(MPI_IN_PLACE, 0, MPI_DOUBLE, to, each, MPI_DOUBLE, comm));
    TRY("allgatherv", MPI_Allgatherv(from, counts[me], MPI_DOUBLE, to, counts, places, MPI_DOUBLE, comm));
    TRY("alltoall", MPI_Alltoall(from, each, MPI_DOUBLE, to, each, MPI_DOUBLE, comm));
    for (int i = 0; i < members; i++)
        counts[i] = each - (i + me) % 3;
    TRY("alltoallv", MPI_Alltoallv(from, counts, places, MPI_DOUBLE, to, counts, places, MPI_DOUBLE, comm));
    MPI_Datatype types[64];
    for (int i = 0; i < members; i++) {
        types[i] = MPI_DOUBLE;
        places[i] *= 8;
    }
    TRY("alltoallw", MPI_Alltoallw(from, counts, places, types, to, counts, places, types, comm));
}

static void reductions(int bytes, MPI_Comm comm)
{
    int members, count = bytes / 8, counts[64];
    MPI_Comm_size(comm, &members);
    int root = round_ % members, each = count / members;
    for (int i = 0; i < members; i++)
        counts[i] = each - i % 2;
    TRY("reduce", MPI_Reduce(from, to, count, MPI_DOUBLE, MPI_SUM, root, comm));
    TRY("allreduce", MPI_Allreduce(from, to, count, MPI_DOUBLE, MPI_SUM, comm));
    TRY("allreduce in place", MPI_Allreduce(MPI_IN_PLACE, to, count, MPI_DOUBLE, MPI_MAX, comm));
    TRY("scan", MPI_Scan(from, to, count, MPI_DOUBLE, MPI_SUM, comm));
    TRY("exscan", MPI_Exscan(from, to, count, MPI_DOUBLE, MPI_SUM, comm));
    TRY("reduce_scatter", MPI_Reduce_scatter(from, to, counts, MPI_DOUBLE, MPI_SUM, comm));
    TRY("reduce_scatter_block", MPI_Reduce_scatter_block(from, to, each, MPI_DOUBLE, MPI_SUM, comm));
    TRY("reduce_scatter_block in place",
        MPI_Reduce_scatter_block(MPI_IN_PLACE, to, each, MPI_DOUBLE, MPI_MIN, comm));
    TRY("composition", MPI_Allreduce(from, to, count / 2, gappy, product, comm));
    TRY("composition at the root", MPI_Reduce(from, to, count / 2, gappy, product, root, comm));
}

/* On a grid of two rows, where the upper and the lower neighbour are one rank. */
static void neighbours(int bytes)
{
    enum { DEGREE = 4 };
    int each = bytes / 8 / DEGREE, pairs[DEGREE];
    MPI_Aint places[DEGREE];
    MPI_Datatype types[DEGREE];
    for (int i = 0; i < DEGREE; i++) {
        pairs[i] = each / 3;
        places[i] = (MPI_Aint)i * each * 8;
        types[i] = gappy;
    }
    TRY("neighbor_allgather", MPI_Neighbor_allgather(from, each, MPI_DOUBLE, to, each, MPI_DOUBLE, grid));
    TRY("neighbor_alltoall", MPI_Neighbor_alltoall(from, each, MPI_DOUBLE, to, each, MPI_DOUBLE, grid));
    TRY("neighbor_alltoallw", MPI_Neighbor_alltoallw(from, pairs, places, types, to, pairs, places, types, grid));
}

static void content(void)
{
    for (int s = 0; s < SIZES; s++) {
        if (sizes[s] == 0)
            continue;
        moves(sizes[s], MPI_COMM_WORLD);
        reductions(sizes[s], MPI_COMM_WORLD);
        neighbours(sizes[s]);
    }
    int few = sizes[0] == 0 ? largest : sizes[round_ % SIZES];
    moves(few, pair);
    reductions(few, pair);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc > 3) {
        largest = sizes[SIZES - 1] = atoi(argv[3]) << 10;
        sizes[0] = sizes[1] = 0;
    }
    from = calloc(2, largest);
    to = calloc(2, largest);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, -rank, &pair);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Cart_create(MPI_COMM_WORLD, 2, (int[]){2, size / 2}, (int[]){1, 1}, 0, &grid);
    MPI_Op_create(compose, 0, &product);
    MPI_Datatype two;
    MPI_Type_contiguous(2, MPI_DOUBLE, &two);
    MPI_Type_create_resized(two, 0, 3 * sizeof(double), &gappy);
    MPI_Type_free(&two);
    MPI_Type_commit(&gappy);
    run_rounds(argc, argv, content);
    MPI_Type_free(&gappy);
    MPI_Op_free(&product);
    MPI_Comm_free(&pair);
    MPI_Comm_free(&grid);
    free(from);
    free(to);
    MPI_Finalize();
    return 0;
}
