/*
 * Memory that is written by MPI alone, once. Each step receives to a new place in the
 * history of each kind of call, and the histories are compared only at the end. A
 * checkpoint that misses what MPI has written leaves a gap after a failure.
 *
 *     landings [steps [pause in milliseconds]]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLACE = 8192, INTS = PLACE / sizeof(int), MOST = 16 };

static int rank, size, steps = 60, pause_ms = 5, left, right, step;
static MPI_Comm comm = MPI_COMM_WORLD, ring;
static MPI_Win window;
static MPI_Datatype striped;
static int out[INTS], counts[MOST], at[MOST], bytes_at[MOST], part;
static MPI_Aint places[2] = {0, PLACE / 2};
static MPI_Datatype types[MOST];
static MPI_Request open_receive = MPI_REQUEST_NULL, persistent, collective, outgoing;
static MPI_Request partitioned, partitioned_send;
static int *window_memory;

/* The integer that process r sends in a step, by its index. */
static int value(int r, int t, int i)
{
    return 1000003 * (r + 1) + 7919 * t + i;
}

static void fill(void)
{
    for (int i = 0; i < INTS; i++)
        out[i] = value(rank, step, i);
}

/* True if the integers come from process r, starting with an index of its message. */
static int are_from(const int *in, int count, int r, int t, int first)
{
    for (int i = 0; i < count; i++)
        if (in[i] != value(r, t, first + i))
            return 0;
    return 1;
}

static int is_from(const int *in, int r, int t)
{
    return are_from(in, INTS, r, t, 0);
}

static int is_from_left(const int *in, int t)
{
    return is_from(in, left, t);
}

static int is_from_root(const int *in, int t)
{
    return is_from(in, t % size, t);
}

/* One part of the place from each process. */
static int is_from_all(const int *in, int t)
{
    for (int r = 0; r < size; r++)
        if (!are_from(in + r * part, part, r, t, 0))
            return 0;
    return 1;
}

static int is_gathered(const int *in, int t)
{
    return rank != t % size || is_from_all(in, t);
}

/* One part of each process's message, which is meant for this process. */
static int is_exchanged(const int *in, int t)
{
    for (int r = 0; r < size; r++)
        if (!are_from(in + r * part, part, r, t, rank * part))
            return 0;
    return 1;
}

static int is_part_of_root(const int *in, int t)
{
    return rank == t % size || are_from(in, part, t % size, t, rank * part);
}

static int is_sum(const int *in, int t)
{
    for (int i = 0; i < INTS; i++) {
        int sum = 0;
        for (int r = 0; r < size; r++)
            sum += value(r, t, i);
        if (in[i] != sum)
            return 0;
    }
    return 1;
}

static int is_sum_at_root(const int *in, int t)
{
    return rank != t % size || is_sum(in, t);
}

static int is_own_sum(const int *in, int t)
{
    for (int i = 0; i < part; i++) {
        int sum = 0;
        for (int r = 0; r < size; r++)
            sum += value(r, t, rank * part + i);
        if (in[i] != sum)
            return 0;
    }
    return 1;
}

static int is_striped(const int *in, int t)
{
    for (int block = 0; block < 4; block++)
        if (!are_from(in + block * INTS / 4, INTS / 8, left, t, block * INTS / 8))
            return 0;
    return 1;
}

/* The neighbours in the ring: the left one, then the right one. */
static int is_from_neighbours(const int *in, int t)
{
    return are_from(in, INTS / 2, left, t, 0) && are_from(in + INTS / 2, INTS / 2, right, t, 0);
}

static int is_from_last_step(const int *in, int t)
{
    return t == 0 || is_from(in, left, t - 1);
}

static void to_right(void)
{
    MPI_Isend(out, INTS, MPI_INT, right, 1, comm, &outgoing);
}

static void received(void)
{
    MPI_Wait(&outgoing, MPI_STATUS_IGNORE);
}

static void receive(int *in)
{
    to_right();
    MPI_Recv(in, INTS, MPI_INT, left, 1, comm, MPI_STATUS_IGNORE);
    received();
}

static void sendrecv(int *in)
{
    MPI_Sendrecv(out, INTS, MPI_INT, right, 1, in, INTS, MPI_INT, left, 1, comm,
                 MPI_STATUS_IGNORE);
}

static void replace(int *in)
{
    memcpy(in, out, PLACE);
    MPI_Sendrecv_replace(in, INTS, MPI_INT, right, 1, left, 1, comm, MPI_STATUS_IGNORE);
}

static void matched(int *in)
{
    MPI_Message message;
    to_right();
    MPI_Mprobe(left, 1, comm, &message, MPI_STATUS_IGNORE);
    MPI_Mrecv(in, INTS, MPI_INT, &message, MPI_STATUS_IGNORE);
    received();
}

static void derived(int *in)
{
    MPI_Isend(out, INTS / 2, MPI_INT, right, 1, comm, &outgoing);
    MPI_Recv(in, 1, striped, left, 1, comm, MPI_STATUS_IGNORE);
    received();
}

/* The receive of a step is completed by the message of the next one. */
static void opened(int *in)
{
    if (step > 0) {
        int *sent = malloc(PLACE);
        for (int i = 0; i < INTS; i++)
            sent[i] = value(rank, step - 1, i);
        MPI_Request request;
        MPI_Isend(sent, INTS, MPI_INT, right, 2, comm, &request);
        MPI_Wait(&open_receive, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        free(sent);
    }
    if (step < steps - 1)
        MPI_Irecv(in, INTS, MPI_INT, left, 2, comm, &open_receive);
}

static void broadcast(int *in)
{
    if (rank == step % size)
        memcpy(in, out, PLACE);
    MPI_Bcast(in, INTS, MPI_INT, step % size, comm);
}

static void allgather(int *in)
{
    MPI_Allgather(out, part, MPI_INT, in, part, MPI_INT, comm);
}

static void allgatherv(int *in)
{
    MPI_Allgatherv(out, part, MPI_INT, in, counts, at, MPI_INT, comm);
}

static void gather(int *in)
{
    int is_root = rank == step % size;
    MPI_Gather(out, part, MPI_INT, is_root ? in : 0, is_root ? part : -1,
               is_root ? MPI_INT : MPI_DATATYPE_NULL, step % size, comm);
}

static void alltoall(int *in)
{
    MPI_Alltoall(out, part, MPI_INT, in, part, MPI_INT, comm);
}

static void alltoallv(int *in)
{
    MPI_Alltoallv(out, counts, at, MPI_INT, in, counts, at, MPI_INT, comm);
}

static void alltoallw(int *in)
{
    MPI_Alltoallw(out, counts, bytes_at, types, in, counts, bytes_at, types, comm);
}

static void scatter(int *in)
{
    int is_root = rank == step % size;
    MPI_Scatter(out, part, MPI_INT, is_root ? MPI_IN_PLACE : in, part, MPI_INT, step % size, comm);
}

static void allreduce(int *in)
{
    MPI_Allreduce(out, in, INTS, MPI_INT, MPI_SUM, comm);
}

static void reduce(int *in)
{
    MPI_Reduce(out, rank == step % size ? in : 0, INTS, MPI_INT, MPI_SUM, step % size, comm);
}

static void reduce_scatter(int *in)
{
    MPI_Reduce_scatter(out, in, counts, MPI_INT, MPI_SUM, comm);
}

static void nonblocking(int *in)
{
    MPI_Request request;
    MPI_Ialltoallv(out, counts, at, MPI_INT, in, counts, at, MPI_INT, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void neighbours(int *in)
{
    MPI_Neighbor_allgather(out, INTS / 2, MPI_INT, in, INTS / 2, MPI_INT, ring);
}

static void neighbours_w(int *in)
{
    int halves[2] = {INTS / 2, INTS / 2};
    MPI_Aint firsts[2] = {0, 0};
    MPI_Neighbor_alltoallw(out, halves, firsts, types, in, halves, places, types, ring);
}

static void get(int *in)
{
    memcpy(window_memory, out, PLACE);
    MPI_Win_fence(0, window);
    MPI_Get(in, INTS, MPI_INT, left, 0, INTS, MPI_INT, window);
    MPI_Win_fence(0, window);
}

/* A buffer that is read a step later, before the next message overwrites it. */
static void copied_receive(int *in)
{
    static int buffer[INTS];
    if (step > 0)
        memcpy(in, buffer, PLACE);
    receive(buffer);
}

/* Persistent requests have such a buffer, too. */
static void copied_persistent(int *in)
{
    static int buffer[INTS];
    if (persistent == MPI_REQUEST_NULL)
        MPI_Recv_init(buffer, INTS, MPI_INT, left, 3, comm, &persistent);
    if (step > 0)
        memcpy(in, buffer, PLACE);
    MPI_Start(&persistent);
    MPI_Send(out, INTS, MPI_INT, right, 3, comm);
    MPI_Wait(&persistent, MPI_STATUS_IGNORE);
}

static void copied_collective(int *in)
{
    static int buffer[INTS], sent[INTS];
    if (collective == MPI_REQUEST_NULL)
        MPI_Neighbor_alltoallw_init(sent, (int[]){0, INTS}, (MPI_Aint[]){0, 0},
                                    types, buffer, (int[]){INTS, 0}, (MPI_Aint[]){0, 0},
                                    types, ring, MPI_INFO_NULL, &collective);
    if (step > 0)
        memcpy(in, buffer, PLACE);
    memcpy(sent, out, PLACE);
    MPI_Start(&collective);
    MPI_Wait(&collective, MPI_STATUS_IGNORE);
}

static void copied_partitions(int *in)
{
    static int buffer[INTS], sent[INTS];
    if (partitioned == MPI_REQUEST_NULL) {
        MPI_Precv_init(buffer, 1, INTS, MPI_INT, left, 4, comm, MPI_INFO_NULL, &partitioned);
        MPI_Psend_init(sent, 1, INTS, MPI_INT, right, 4, comm, MPI_INFO_NULL, &partitioned_send);
    }
    if (step > 0)
        memcpy(in, buffer, PLACE);
    memcpy(sent, out, PLACE);
    MPI_Start(&partitioned);
    MPI_Start(&partitioned_send);
    MPI_Pready(0, partitioned_send);
    MPI_Wait(&partitioned_send, MPI_STATUS_IGNORE);
    MPI_Wait(&partitioned, MPI_STATUS_IGNORE);
}

static const struct kind {
    const char *name;
    void (*receive)(int *in);
    int (*is_right)(const int *in, int t);
} kinds[] = {
    {"MPI_Recv", receive, is_from_left},
    {"MPI_Sendrecv", sendrecv, is_from_left},
    {"MPI_Sendrecv_replace", replace, is_from_left},
    {"MPI_Mrecv", matched, is_from_left},
    {"a derived datatype", derived, is_striped},
    {"an open MPI_Irecv", opened, is_from_left},
    {"MPI_Bcast", broadcast, is_from_root},
    {"MPI_Allgather", allgather, is_from_all},
    {"MPI_Allgatherv", allgatherv, is_from_all},
    {"MPI_Gather", gather, is_gathered},
    {"MPI_Alltoall", alltoall, is_exchanged},
    {"MPI_Alltoallv", alltoallv, is_exchanged},
    {"MPI_Alltoallw", alltoallw, is_exchanged},
    {"MPI_Scatter", scatter, is_part_of_root},
    {"MPI_Allreduce", allreduce, is_sum},
    {"MPI_Reduce", reduce, is_sum_at_root},
    {"MPI_Reduce_scatter", reduce_scatter, is_own_sum},
    {"MPI_Ialltoallv", nonblocking, is_exchanged},
    {"MPI_Neighbor_allgather", neighbours, is_from_neighbours},
    {"MPI_Neighbor_alltoallw", neighbours_w, is_from_neighbours},
    {"MPI_Get", get, is_from_left},
    {"a buffer that is used again", copied_receive, is_from_last_step},
    {"MPI_Recv_init", copied_persistent, is_from_last_step},
    {"MPI_Neighbor_alltoallw_init", copied_collective, is_from_last_step},
    {"MPI_Precv_init", copied_partitions, is_from_last_step},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

static void prepare(void)
{
    int periodic = 1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    part = INTS / size;
    for (int r = 0; r < size; r++) {
        counts[r] = part;
        at[r] = r * part;
        bytes_at[r] = r * part * sizeof(int);
        types[r] = MPI_INT;
    }
    MPI_Cart_create(comm, 1, &size, &periodic, 0, &ring);
    MPI_Type_vector(4, INTS / 8, INTS / 4, MPI_INT, &striped);
    MPI_Type_commit(&striped);
    window_memory = malloc(PLACE);
    MPI_Win_create(window_memory, PLACE, sizeof(int), MPI_INFO_NULL, comm, &window);
    persistent = collective = partitioned = MPI_REQUEST_NULL;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc > 1)
        steps = atoi(argv[1]);
    if (argc > 2)
        pause_ms = atoi(argv[2]);
    prepare();
    size_t length = (size_t)steps * PLACE;
    int *histories[KINDS];
    for (int k = 0; k < KINDS; k++) {
        histories[k] = aligned_alloc(PLACE, length);
        memset(histories[k], 255, length);
    }
    for (step = 0; step < steps; step++) {
        int one = 1, all;
        fill();
        for (int k = 0; k < KINDS; k++) {
            kinds[k].receive(histories[k] + step * INTS);
            MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, comm);
        }
        if (rank == 0 && step % 10 == 9) {
            printf("step %d\n", step);
            fflush(stdout);
        }
        usleep(1000 * pause_ms);
    }
    for (int k = 0; k < KINDS; k++) {
        int gaps = 0, all;
        int last = kinds[k].receive == opened ? steps - 1 : steps;
        for (int t = 0; t < last; t++)
            gaps += !kinds[k].is_right(histories[k] + t * INTS, t);
        MPI_Reduce(&gaps, &all, 1, MPI_INT, MPI_SUM, 0, comm);
        if (rank == 0)
            printf("%s: %d gaps\n", kinds[k].name, all);
    }
    MPI_Request *made[] = {&persistent, &collective, &partitioned, &partitioned_send};
    for (int i = 0; i < 4; i++)
        MPI_Request_free(made[i]);
    MPI_Win_free(&window);
    MPI_Type_free(&striped);
    MPI_Comm_free(&ring);
    MPI_Finalize();
    return 0;
}
