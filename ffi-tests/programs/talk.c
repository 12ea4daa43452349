/*
 * Communication whose amounts are known exactly: talk ROUNDS BYTES, on four ranks.
 *
 * In each round every rank sends BYTES bytes to the next, 3000 bytes to the next (a persistent synchronous send), 16 bytes to
 * the previous, 4 bytes to the one after the next (on a communicator named "halves"), 5 bytes to itself (buffered, on
 * MPI_COMM_SELF), and something to MPI_PROC_NULL. At the end there is one of each collective.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 4, LONG = 3000 };

static int rank, prev, next;
static double sum;

static void add(const void *data, size_t length)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < length; i++)
        sum = sum * 0.75 + bytes[i];
}

static void talk(int round, char *out, char *in, int bytes, MPI_Comm halves, MPI_Request *persistent)
{
    MPI_Request request;
    memset(out, rank + round, bytes);
    MPI_Irecv(in, bytes, MPI_BYTE, prev, 1, MPI_COMM_WORLD, &request);
    MPI_Send(out, bytes, MPI_BYTE, next, 1, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    add(in, bytes);

    MPI_Startall(2, persistent);
    MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE);

    double pair[2] = {rank, round}, got[2];
    MPI_Sendrecv(pair, 2, MPI_DOUBLE, prev, 2, got, 2, MPI_DOUBLE, next, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    add(got, sizeof got);
    MPI_Send(pair, 2, MPI_DOUBLE, MPI_PROC_NULL, 2, MPI_COMM_WORLD);

    int half, one = rank * 100 + round, two[2] = {0, 0}, both[2];
    MPI_Comm_rank(halves, &half);
    MPI_Irecv(two, 1, MPI_INT, 1 - half, 3, halves, &request);
    MPI_Send(&one, 1, MPI_INT, 1 - half, 3, halves);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Allgather(&one, 1, MPI_INT, both, 1, MPI_INT, halves);
    add(both, sizeof both);

    char five[5] = "five", back[5];
    MPI_Bsend(five, 5, MPI_BYTE, 0, 4, MPI_COMM_SELF);
    MPI_Recv(back, 5, MPI_BYTE, 0, 4, MPI_COMM_SELF, MPI_STATUS_IGNORE);

    double mine = sum, all;
    int three[3] = {rank, round, 3}, sums[2];
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Bcast(three, 3, MPI_INT, round % SIZE, MPI_COMM_WORLD);
    MPI_Iallreduce(two, sums, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    add(&all, sizeof all);
    add(three, sizeof three);
    add(sums, sizeof sums);
    if (rank == 0 && round % 50 == 0) {
        printf("round %d: %.17g\n", round, all);
        fflush(stdout);
    }
}

static void at_the_end(void)
{
    MPI_Comm world = MPI_COMM_WORLD, ring;
    double d[16], e[16] = {0};
    int a[32], b[32] = {0}, ones[SIZE], counts[SIZE], starts[SIZE], places[SIZE], twos[SIZE];
    MPI_Datatype types[SIZE];
    for (int i = 0; i < 32; i++)
        a[i] = rank * 32 + i;
    for (int i = 0; i < 16; i++)
        d[i] = rank + i * 0.5;
    for (int i = 0; i < SIZE; i++) {
        ones[i] = 1;
        twos[i] = 2;
        counts[i] = i + 1;
        starts[i] = i * (i + 1) / 2;
        places[i] = i * 16;
        types[i] = i % 2 ? MPI_DOUBLE : MPI_INT;
    }
    int blocks[SIZE], offsets[SIZE];
    for (int i = 0; i < SIZE; i++) {
        blocks[i] = rank + 1;
        offsets[i] = i * (rank + 1);
    }

    MPI_Barrier(world);
    MPI_Gather(a, 5, MPI_INT, b, 5, MPI_INT, 2, world);
    MPI_Gather(rank == 0 ? MPI_IN_PLACE : a, 6, MPI_INT, b, 6, MPI_INT, 0, world);
    MPI_Scatter(d, 2, MPI_DOUBLE, e, 2, MPI_DOUBLE, 3, world);
    MPI_Alltoall(a, 1, MPI_INT, b, 1, MPI_INT, world);
    MPI_Alltoallv(a, counts, starts, MPI_INT, b, blocks, offsets, MPI_INT, world);
    MPI_Datatype own[SIZE] = {types[rank], types[rank], types[rank], types[rank]};
    MPI_Alltoallw(d, twos, places, types, e, twos, places, own, world);
    MPI_Reduce(a, b, 3, MPI_INT, MPI_SUM, 0, world);
    MPI_Reduce_scatter_block(d, e, 2, MPI_DOUBLE, MPI_SUM, world);
    MPI_Reduce_scatter(a, b, counts, MPI_INT, MPI_SUM, world);
    MPI_Scan(a, b, 1, MPI_INT, MPI_SUM, world);
    MPI_Exscan(a, b, 1, MPI_INT, MPI_SUM, world);
    MPI_Allgatherv(a, rank + 1, MPI_INT, b, counts, starts, MPI_INT, world);
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, counts, starts, MPI_INT, world);
    MPI_Gatherv(rank == 1 ? MPI_IN_PLACE : a, rank + 1, MPI_INT, b, counts, starts, MPI_INT, 1, world);
    MPI_Scatterv(a, counts, starts, MPI_INT, b, rank + 1, MPI_INT, 0, world);

    int size = SIZE, yes = 1, one_two[2] = {1, 2}, where[2] = {0, 1}, to[2] = {0, 2};
    MPI_Cart_create(world, 1, &size, &yes, 0, &ring);
    MPI_Neighbor_allgather(a, 3, MPI_INT, b, 3, MPI_INT, ring);
    MPI_Neighbor_alltoall(d, 1, MPI_DOUBLE, e, 1, MPI_DOUBLE, ring);
    /* Two elements go to the right, where they come from the left. */
    int two_one[2] = {2, 1};
    MPI_Neighbor_alltoallv(a, one_two, where, MPI_INT, b, two_one, to, MPI_INT, ring);
    MPI_Aint zero[2] = {0, 4};
    MPI_Neighbor_alltoallw(a, ones, zero, (MPI_Datatype[]){MPI_INT, MPI_INT}, b, ones, zero,
                           (MPI_Datatype[]){MPI_INT, MPI_INT}, ring);
    MPI_Comm_free(&ring);
    add(b, sizeof b);
    add(e, sizeof e);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int size, rounds = argc > 1 ? atoi(argv[1]) : 100, bytes = argc > 2 ? atoi(argv[2]) : 100;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != SIZE) {
        fprintf(stderr, "talk: needs four ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    prev = (rank + SIZE - 1) % SIZE;
    next = (rank + 1) % SIZE;
    MPI_Comm halves;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &halves);
    MPI_Comm_set_name(halves, "halves");
    char *out = malloc(bytes), *in = malloc(bytes), *far = calloc(2, LONG), buffer[1000];
    MPI_Buffer_attach(buffer, sizeof buffer);
    MPI_Request persistent[2];
    MPI_Ssend_init(far, LONG, MPI_BYTE, next, 5, MPI_COMM_WORLD, &persistent[0]);
    MPI_Recv_init(far + LONG, LONG, MPI_BYTE, prev, 5, MPI_COMM_WORLD, &persistent[1]);
    for (int round = 0; round < rounds; round++)
        talk(round, out, in, bytes, halves, persistent);
    at_the_end();
    double all;
    MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, halves);
    MPI_Request_free(&persistent[0]);
    MPI_Request_free(&persistent[1]);
    int attached;
    char *address;
    MPI_Buffer_detach(&address, &attached);
    if (rank == 0)
        printf("sum %.17g\n", all);
    MPI_Finalize();
    return 0;
}
