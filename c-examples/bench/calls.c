/*
 * calls: what single MPI calls cost, on two ranks.
 *
 *   mpirun -n 2 calls [ROUNDS]
 *
 * Rank 0 prints one line for each figure, `name value`, the best of ROUNDS
 * rounds, which are so short that some of them are not disturbed by others on
 * the machine: seconds for one way of a small message, for a small message to
 * oneself and for an Allreduce, bytes per second for large messages, seconds
 * per call of local procedures.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

enum { TAG = 1, SMALL = 8, LARGE = 1 << 20, WINDOW = 8 };

typedef double (*figure)(int rank);

static char *buffer;

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

/* Seconds for sending 8 bytes to oneself and receiving them: no waiting, only the work. */
static double to_self(int rank)
{
    enum { COUNT = 1000 };
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < COUNT; i++) {
        MPI_Send(buffer, SMALL, MPI_BYTE, rank, TAG, MPI_COMM_WORLD);
        MPI_Recv(buffer, SMALL, MPI_BYTE, rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return (MPI_Wtime() - start) / COUNT;
}

/* Bytes per second in one direction, WINDOW messages under way. */
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

/* The same with blocking procedures, to and fro. */
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

static double allreduce(int rank)
{
    enum { COUNT = 200 };
    double one = rank, sum;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < COUNT; i++)
        MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return (MPI_Wtime() - start) / COUNT;
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
    static const struct {
        const char *name;
        figure run;
        int is_rate;
    } figures[] = {
        {"latency", latency, 0},
        {"to_self", to_self, 0},
        {"bandwidth", bandwidth, 1},
        {"blocking_bandwidth", blocking_bandwidth, 1},
        {"allreduce", allreduce, 0},
        {"comm_rank", comm_rank, 0},
        {"initialized", initialized, 0},
        {"type_size", type_size, 0},
    };
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2 || rounds < 1) {
        fprintf(stderr, "calls: needs two ranks, and at least one round\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    buffer = malloc((size_t)WINDOW * LARGE);
    if (buffer == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(buffer, 1, (size_t)WINDOW * LARGE);
    for (size_t f = 0; f < sizeof figures / sizeof figures[0]; f++) {
        double best = figures[f].run(rank);
        for (int r = 1; r < rounds; r++) {
            double figure = figures[f].run(rank);
            if (figures[f].is_rate ? figure > best : figure < best)
                best = figure;
        }
        if (rank == 0)
            printf("%s %.6e\n", figures[f].name, best);
    }
    free(buffer);
    MPI_Finalize();
    return 0;
}
