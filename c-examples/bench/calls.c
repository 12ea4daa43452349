/*
 * calls: cost of single MPI calls, on two ranks.
 *
 *   mpirun -n 2 calls [ROUNDS [FIGURE...]]
 *
 * A figure is seconds for one message, exchange, collective or call, or bytes per
 * second. Figures whose names begin with `self_` or `some_` are of messages to oneself
 * and of collectives of one rank, in processor time.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "figures.h"

enum { TAG = 1, SMALL = 8, LARGE = 1 << 20, WINDOW = 8, RATE_WINDOW = 64, NEIGHBOURS = 26 };

static char *buffer, *second;

/* Processor time of this thread in seconds. */
static double processor_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Seconds for one way of an 8-byte message. */
static double latency(int rank)
{
    enum { COUNT = 200 };
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < COUNT; i++) {
        if (rank == 0) {
            MPI_Send(buffer, SMALL, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
            MPI_Recv(buffer, SMALL, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buffer, SMALL, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, SMALL, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
        }
    }
    return (MPI_Wtime() - start) / (2.0 * COUNT);
}

/* Seconds for a message of 8 bytes, with RATE_WINDOW messages in flight. */
static double message(int rank)
{
    enum { COUNT = 4 };
    MPI_Request requests[RATE_WINDOW];
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < COUNT; i++) {
        for (int w = 0; w < RATE_WINDOW; w++) {
            char *at = buffer + (size_t)w * SMALL;
            if (rank == 0)
                MPI_Isend(at, SMALL, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &requests[w]);
            else
                MPI_Irecv(at, SMALL, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &requests[w]);
        }
        MPI_Waitall(RATE_WINDOW, requests, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(buffer, 1, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(buffer, 1, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
    }
    return (MPI_Wtime() - start) / (COUNT * RATE_WINDOW);
}

/* Simultaneous messages of 8 bytes in both directions, by requests. */
static void exchange_with(int peer, MPI_Comm comm)
{
    MPI_Request requests[2];
    MPI_Irecv(second, SMALL, MPI_BYTE, peer, TAG, comm, &requests[0]);
    MPI_Isend(buffer, SMALL, MPI_BYTE, peer, TAG, comm, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static double exchange(int rank)
{
    enum { COUNT = 200 };
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < COUNT; i++)
        exchange_with(1 - rank, MPI_COMM_WORLD);
    return (MPI_Wtime() - start) / COUNT;
}

/* The exchange by one blocking call. */
static void sendrecv_with(int peer, MPI_Comm comm)
{
    MPI_Sendrecv(buffer, SMALL, MPI_BYTE, peer, TAG, second, SMALL, MPI_BYTE, peer, TAG, comm, MPI_STATUS_IGNORE);
}

static double sendrecv(int rank)
{
    enum { COUNT = 200 };
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < COUNT; i++)
        sendrecv_with(1 - rank, MPI_COMM_WORLD);
    return (MPI_Wtime() - start) / COUNT;
}

/* Starts to exchange 8 bytes with each neighbour; all neighbours are one rank. */
static void start_halo(int peer, MPI_Request requests[2 * NEIGHBOURS])
{
    for (int n = 0; n < NEIGHBOURS; n++)
        MPI_Irecv(second + n * SMALL, SMALL, MPI_BYTE, peer, n, MPI_COMM_WORLD, &requests[n]);
    requests += NEIGHBOURS;
    for (int n = 0; n < NEIGHBOURS; n++)
        MPI_Isend(buffer + n * SMALL, SMALL, MPI_BYTE, peer, n, MPI_COMM_WORLD, &requests[n]);
}

/*
 * Exchange of a cell of a three-dimensional grid: 8 bytes to and from each
 * neighbour.
 */
static double halo(int rank)
{
    enum { COUNT = 20 };
    MPI_Request requests[2 * NEIGHBOURS];
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < COUNT; i++) {
        start_halo(1 - rank, requests);
        MPI_Waitall(2 * NEIGHBOURS, requests, MPI_STATUSES_IGNORE);
    }
    return (MPI_Wtime() - start) / COUNT;
}

/* The halo exchange by persistent requests. */
static double persistent_halo(int rank)
{
    enum { COUNT = 20 };
    MPI_Request requests[2 * NEIGHBOURS];
    for (int n = 0; n < NEIGHBOURS; n++) {
        MPI_Recv_init(second + n * SMALL, SMALL, MPI_BYTE, 1 - rank, n, MPI_COMM_WORLD, &requests[n]);
        MPI_Send_init(buffer + n * SMALL, SMALL, MPI_BYTE, 1 - rank, n, MPI_COMM_WORLD, &requests[NEIGHBOURS + n]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < COUNT; i++) {
        MPI_Startall(2 * NEIGHBOURS, requests);
        MPI_Waitall(2 * NEIGHBOURS, requests, MPI_STATUSES_IGNORE);
    }
    double took = (MPI_Wtime() - start) / COUNT;
    for (int n = 0; n < 2 * NEIGHBOURS; n++)
        MPI_Request_free(&requests[n]);
    return took;
}

/* The halo exchange, whose requests are completed one by one in any order. */
static double any_halo(int rank)
{
    enum { COUNT = 20 };
    MPI_Request requests[2 * NEIGHBOURS];
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < COUNT; i++) {
        start_halo(1 - rank, requests);
        for (int n = 0; n < 2 * NEIGHBOURS; n++) {
            int index;
            MPI_Waitany(2 * NEIGHBOURS, requests, &index, MPI_STATUS_IGNORE);
        }
    }
    return (MPI_Wtime() - start) / COUNT;
}

static double self_send(int rank)
{
    enum { COUNT = 1000 };
    (void)rank;
    double start = processor_time();
    for (int i = 0; i < COUNT; i++) {
        MPI_Request receive;
        MPI_Irecv(second, SMALL, MPI_BYTE, 0, TAG, MPI_COMM_SELF, &receive);
        MPI_Send(buffer, SMALL, MPI_BYTE, 0, TAG, MPI_COMM_SELF);
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
    }
    return (processor_time() - start) / COUNT;
}

static double self_exchange(int rank)
{
    enum { COUNT = 1000 };
    (void)rank;
    double start = processor_time();
    for (int i = 0; i < COUNT; i++)
        exchange_with(0, MPI_COMM_SELF);
    return (processor_time() - start) / COUNT;
}

static double self_wait(int rank)
{
    enum { COUNT = 1000 };
    (void)rank;
    double start = processor_time();
    for (int i = 0; i < COUNT; i++) {
        MPI_Request receive, send;
        MPI_Irecv(second, SMALL, MPI_BYTE, 0, TAG, MPI_COMM_SELF, &receive);
        MPI_Isend(buffer, SMALL, MPI_BYTE, 0, TAG, MPI_COMM_SELF, &send);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
    }
    return (processor_time() - start) / COUNT;
}

static double self_sendrecv(int rank)
{
    enum { COUNT = 1000 };
    (void)rank;
    double start = processor_time();
    for (int i = 0; i < COUNT; i++)
        sendrecv_with(0, MPI_COMM_SELF);
    return (processor_time() - start) / COUNT;
}

/* Bytes per second in one direction, with WINDOW messages in flight. */
static double bandwidth(int rank)
{
    enum { COUNT = 2 };
    MPI_Request requests[WINDOW];
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < COUNT; i++) {
        for (int w = 0; w < WINDOW; w++) {
            char *at = buffer + (size_t)w * LARGE;
            if (rank == 0)
                MPI_Isend(at, LARGE, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &requests[w]);
            else
                MPI_Irecv(at, LARGE, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &requests[w]);
        }
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(buffer, 1, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(buffer, 1, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
    }
    return (double)COUNT * WINDOW * LARGE / (MPI_Wtime() - start);
}

/* Bytes per second with blocking procedures, in alternating directions. */
static double blocking_bandwidth(int rank)
{
    enum { COUNT = 8 };
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < COUNT; i++) {
        if (rank == i % 2)
            MPI_Send(buffer, LARGE, MPI_BYTE, 1 - rank, TAG, MPI_COMM_WORLD);
        else
            MPI_Recv(buffer, LARGE, MPI_BYTE, 1 - rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return (double)COUNT * LARGE / (MPI_Wtime() - start);
}

/* Seconds for an Allreduce of `bytes` bytes. */
static double allreduce_of(int bytes, int count)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < count; i++)
        MPI_Allreduce(buffer, second, bytes / (int)sizeof(double), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return (MPI_Wtime() - start) / count;
}

static double allreduce(int rank)
{
    (void)rank;
    return allreduce_of(SMALL, 200);
}

static double allreduce_64k(int rank)
{
    (void)rank;
    return allreduce_of(64 << 10, 20);
}

static double allreduce_1m(int rank)
{
    (void)rank;
    return allreduce_of(1 << 20, 3);
}

static double allreduce_4m(int rank)
{
    (void)rank;
    return allreduce_of(4 << 20, 1);
}

/* A communicator of one worker: its collectives show what each call costs. */
static MPI_Comm some;

static double some_allreduce(int rank)
{
    enum { COUNT = 1000 };
    (void)rank;
    double start = processor_time();
    for (int i = 0; i < COUNT; i++)
        MPI_Allreduce(buffer, second, 1, MPI_DOUBLE, MPI_SUM, some);
    return (processor_time() - start) / COUNT;
}

static double some_barrier(int rank)
{
    enum { COUNT = 10000 };
    (void)rank;
    double start = processor_time();
    for (int i = 0; i < COUNT; i++)
        MPI_Barrier(some);
    return (processor_time() - start) / COUNT;
}

static double some_bcast(int rank)
{
    enum { COUNT = 10000 };
    (void)rank;
    double start = processor_time();
    for (int i = 0; i < COUNT; i++)
        MPI_Bcast(buffer, SMALL, MPI_BYTE, 0, some);
    return (processor_time() - start) / COUNT;
}

/* No message has this tag. */
static double iprobe(int rank)
{
    enum { COUNT = 1000 };
    int flag;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = processor_time();
    for (int i = 0; i < COUNT; i++)
        MPI_Iprobe(1 - rank, TAG + 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    return (processor_time() - start) / COUNT;
}

static double comm_rank(int rank)
{
    enum { COUNT = 10000 };
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < COUNT; i++)
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return (MPI_Wtime() - start) / COUNT;
}

static double initialized(int rank)
{
    enum { COUNT = 10000 };
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < COUNT; i++)
        MPI_Initialized(&rank);
    return (MPI_Wtime() - start) / COUNT;
}

static double type_size(int rank)
{
    enum { COUNT = 10000 };
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < COUNT; i++)
        MPI_Type_size(MPI_DOUBLE, &rank);
    return (MPI_Wtime() - start) / COUNT;
}

int main(int argc, char **argv)
{
    static const figure figures[] = {
        {"latency", latency, 0},
        {"message", message, 0},
        {"exchange", exchange, 0},
        {"sendrecv", sendrecv, 0},
        {"halo", halo, 0},
        {"persistent_halo", persistent_halo, 0},
        {"any_halo", any_halo, 0},
        {"bandwidth", bandwidth, 1},
        {"blocking_bandwidth", blocking_bandwidth, 1},
        {"allreduce", allreduce, 0},
        {"allreduce_64k", allreduce_64k, 0},
        {"allreduce_1m", allreduce_1m, 0},
        {"allreduce_4m", allreduce_4m, 0},
        {"self_send", self_send, 0},
        {"self_exchange", self_exchange, 0},
        {"self_wait", self_wait, 0},
        {"self_sendrecv", self_sendrecv, 0},
        {"some_allreduce", some_allreduce, 0},
        {"some_barrier", some_barrier, 0},
        {"some_bcast", some_bcast, 0},
        {"iprobe", iprobe, 0},
        {"comm_rank", comm_rank, 0},
        {"initialized", initialized, 0},
        {"type_size", type_size, 0},
    };

    MPI_Init(&argc, &argv);
    buffer = malloc((size_t)WINDOW * LARGE);
    if (buffer == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(buffer, 0, (size_t)WINDOW * LARGE);
    second = buffer + (size_t)WINDOW / 2 * LARGE;
    MPI_Comm_dup(MPI_COMM_SELF, &some);
    print_figures(figures, sizeof figures / sizeof figures[0], argc, argv);
    MPI_Comm_free(&some);
    free(buffer);
    MPI_Finalize();
    return 0;
}
