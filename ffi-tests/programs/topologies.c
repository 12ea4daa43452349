/* Virtual topologies and the collectives among neighbours. */
#include "check.h"

static MPI_Comm cart = MPI_COMM_NULL, graph, ring, weighted, twice;

static void neighbours(MPI_Comm comm, const char *name, int in, int out)
{
    int here, send[16], receive[16], counts[16], at[16], ones[16];
    MPI_Aint bytes[16];
    MPI_Datatype types[16];
    MPI_Request request;
    MPI_Comm_rank(comm, &here);
    for (int i = 0; i < 16; i++) {
        send[i] = 100 * here + i + 1000 * round_;
        counts[i] = 1;
        ones[i] = 1;
        at[i] = i;
        bytes[i] = i * (MPI_Aint)sizeof(int);
        types[i] = MPI_INT;
    }
    for (int which = 0; which < 10; which++) {
        memset(receive, -1, sizeof receive);
        request = MPI_REQUEST_NULL;
        switch (which) {
        case 0: MPI_Neighbor_allgather(send, 1, MPI_INT, receive, 1, MPI_INT, comm); break;
        case 1: MPI_Neighbor_allgatherv(send, 1, MPI_INT, receive, counts, at, MPI_INT, comm); break;
        case 2: MPI_Neighbor_alltoall(send, 1, MPI_INT, receive, 1, MPI_INT, comm); break;
        case 3: MPI_Neighbor_alltoallv(send, ones, at, MPI_INT, receive, counts, at, MPI_INT, comm); break;
        case 4: MPI_Neighbor_alltoallw(send, ones, bytes, types, receive, counts, bytes, types, comm); break;
        case 5: MPI_Ineighbor_allgather(send, 1, MPI_INT, receive, 1, MPI_INT, comm, &request); break;
        case 6: MPI_Ineighbor_allgatherv(send, 1, MPI_INT, receive, counts, at, MPI_INT, comm, &request); break;
        case 7: MPI_Ineighbor_alltoall(send, 1, MPI_INT, receive, 1, MPI_INT, comm, &request); break;
        case 8: MPI_Ineighbor_alltoallv(send, ones, at, MPI_INT, receive, counts, at, MPI_INT, comm, &request); break;
        case 9: MPI_Ineighbor_alltoallw(send, ones, bytes, types, receive, counts, bytes, types, comm, &request); break;
        }
        if (which == 7 || which == 9)
            meet();
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        int sum = 0;
        /*
         * For one of the communicators MPI chooses the order of the neighbours, so the
         * sum must not depend on that order.
         */
        for (int i = 0; i < in; i++)
            sum += receive[i] * receive[i];
        say("%s %d: %d in, %d out, %d", name, which, in, out, sum);
    }
}

enum { MOST = 8, LARGE = 1500, STEP = 2 * LARGE };

/*
 * Exchanges blocks of `count` numbers between neighbours, by each of the blocking
 * procedures. The procedure with datatypes (MPI_Neighbor_alltoallw) sends and receives
 * every second number of a block. Places to which no neighbour sends stay unchanged, and
 * so do the gaps within blocks.
 */
static void blocks(MPI_Comm comm, const char *name, int in, int out, int count)
{
    static int send[MOST * STEP], receive[MOST * STEP];
    int here, counts[MOST], at[MOST], backwards[MOST];
    MPI_Aint bytes[MOST], bytes_backwards[MOST];
    MPI_Datatype types[MOST], sparse;
    MPI_Comm_rank(comm, &here);
    MPI_Type_vector(count, 1, 2, MPI_INT, &sparse);
    MPI_Type_commit(&sparse);
    for (int i = 0; i < MOST; i++) {
        counts[i] = count;
        at[i] = i * STEP;
        backwards[i] = (MOST - 1 - i) * STEP;
        bytes[i] = at[i] * (MPI_Aint)sizeof(int);
        bytes_backwards[i] = backwards[i] * (MPI_Aint)sizeof(int);
        types[i] = sparse;
    }
    int ones[MOST] = {1, 1, 1, 1, 1, 1, 1, 1};
    for (int which = 0; which < 5; which++) {
        int distance = which == 0 || which == 2 ? count : STEP;
        for (int i = 0; i < MOST * STEP; i++) {
            send[i] = 1000000 * here + 100000 * (i / distance) + i % distance;
            receive[i] = -1;
        }
        switch (which) {
        case 0: MPI_Neighbor_allgather(send, count, MPI_INT, receive, count, MPI_INT, comm); break;
        case 1: MPI_Neighbor_allgatherv(send, count, MPI_INT, receive, counts, backwards, MPI_INT, comm); break;
        case 2: MPI_Neighbor_alltoall(send, count, MPI_INT, receive, count, MPI_INT, comm); break;
        case 3: MPI_Neighbor_alltoallv(send, counts, at, MPI_INT, receive, counts, backwards, MPI_INT, comm); break;
        case 4: MPI_Neighbor_alltoallw(send, ones, bytes, types, receive, ones, bytes_backwards, types, comm); break;
        }
        long sum = 0, written = 0;
        for (int i = 0; i < MOST * STEP; i++) {
            sum += receive[i] * (long)(i % 977 + 1);
            written += receive[i] != -1;
        }
        say("%s, blocks of %d, %d: %ld written, sum %ld", name, count, which, written, sum);
        for (int i = 0; i < in; i++)
            say("  %d of %d", receive[distance == count ? i * count : backwards[i]], out);
    }
    MPI_Type_free(&sparse);
}

static void cartesian(void)
{
    int dims[2], periods[2], coordinates[2], dimensions, other, from, to, count;
    MPI_Comm row;
    MPI_Topo_test(cart, &count);
    CHECK(count == MPI_CART);
    MPI_Cartdim_get(cart, &dimensions);
    MPI_Cart_get(cart, 2, dims, periods, coordinates);
    MPI_Cart_rank(cart, coordinates, &other);
    say("cart %d: %d x %d, %d %d, at %d %d, rank %d", dimensions, dims[0], dims[1], periods[0], periods[1],
        coordinates[0], coordinates[1], other);
    for (int d = 0; d < 2; d++) {
        MPI_Cart_shift(cart, d, 1, &from, &to);
        int value = round_ * 10 + rank, got = -1;
        MPI_Sendrecv(&value, 1, MPI_INT, to, 1, &got, 1, MPI_INT, from, 1, cart, MPI_STATUS_IGNORE);
        say("shift %d: %d -> %d, got %d", d, from, to, got);
    }
    int remain[2] = {0, 1};
    MPI_Cart_sub(cart, remain, &row);
    meet();
    MPI_Comm_size(row, &count);
    MPI_Cartdim_get(row, &dimensions);
    int sum;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, row);
    say("row of %d, dimension %d, sum %d", count, dimensions, sum);
    MPI_Comm_free(&row);
    neighbours(cart, "cart", 4, 4);
    blocks(cart, "cart", 4, 4, 3);
    blocks(cart, "cart", 4, 4, LARGE);
    blocks(twice, "twice", 3, 3, 3);
    blocks(twice, "twice", 3, 3, LARGE);
    int grid[2] = {0, 0};
    MPI_Dims_create(size, 2, grid);
    say("dims %d %d", grid[0], grid[1]);
    MPI_Cart_map(MPI_COMM_WORLD, 2, dims, periods, &other);
    say("cart map %d", other);
}

static void graphs(void)
{
    int nodes, edges, count, list[64], index[64], status;
    MPI_Topo_test(graph, &status);
    CHECK(status == MPI_GRAPH);
    MPI_Graphdims_get(graph, &nodes, &edges);
    MPI_Graph_get(graph, nodes, edges, index, list);
    say("graph %d nodes, %d edges, last %d %d", nodes, edges, index[nodes - 1], list[edges - 1]);
    MPI_Graph_neighbors_count(graph, rank, &count);
    MPI_Graph_neighbors(graph, rank, count, list);
    for (int i = 0; i < count; i++)
        say("neighbour %d", list[i]);
    neighbours(graph, "graph", count, count);

    int in, out, has_weights, sources[16], targets[16], source_weights[16], target_weights[16];
    MPI_Comm both[2] = {ring, weighted};
    for (int which = 0; which < 2; which++) {
        MPI_Topo_test(both[which], &status);
        CHECK(status == MPI_DIST_GRAPH);
        MPI_Dist_graph_neighbors_count(both[which], &in, &out, &has_weights);
        int *first = has_weights ? source_weights : MPI_UNWEIGHTED, *second = has_weights ? target_weights : MPI_UNWEIGHTED;
        MPI_Dist_graph_neighbors(both[which], in, sources, first, out, targets, second);
        int from = 0, to = 0;
        for (int i = 0; i < in; i++)
            from += 1 + 10 * sources[i] + (has_weights ? 1000 * (1 + sources[i]) * source_weights[i] : 0);
        for (int i = 0; i < out; i++)
            to += 1 + 10 * targets[i] + (has_weights ? 1000 * (1 + targets[i]) * target_weights[i] : 0);
        say("from %d to %d, weights %d", from, to, has_weights);
        neighbours(both[which], which ? "weighted" : "ring", in, out);
    }
}

static void make(void)
{
    int dims[2] = {2, size / 2}, periods[2] = {1, 0}, index[64], edges[128];
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &cart);
    for (int r = 0; r < size; r++) {
        index[r] = 2 * (r + 1);
        edges[2 * r] = (r + 1) % size;
        edges[2 * r + 1] = (r + size - 1) % size;
    }
    MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &graph);
    int left = (rank + size - 1) % size, right = (rank + 1) % size, degree = 2;
    int targets[2] = {right, (rank + 2) % size}, weights[2] = {rank + 1, rank + 10};
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED, MPI_INFO_NULL,
                                   0, &ring);
    /* The right neighbour sends two blocks, and the left one receives two. */
    int sources[3] = {right, left, right}, destinations[3] = {left, left, right};
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 3, sources, MPI_UNWEIGHTED, 3, destinations, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &twice);
    MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &degree, targets, weights, MPI_INFO_NULL, 0, &weighted);
}

static void content(void)
{
    MPI_Comm copy;
    if (cart == MPI_COMM_NULL)
        make();
    cartesian();
    graphs();
    MPI_Comm_dup(weighted, &copy);
    meet();
    int status;
    MPI_Topo_test(copy, &status);
    CHECK(status == MPI_DIST_GRAPH);
    MPI_Comm_free(&copy);
    MPI_Topo_test(MPI_COMM_WORLD, &status);
    CHECK(status == MPI_UNDEFINED);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    MPI_Comm_free(&cart);
    MPI_Comm_free(&graph);
    MPI_Comm_free(&ring);
    MPI_Comm_free(&weighted);
    MPI_Comm_free(&twice);
    MPI_Finalize();
    return 0;
}
