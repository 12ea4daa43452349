/* Threads that call MPI concurrently (MPI_THREAD_MULTIPLE).
 *
 *   multiple STEPS [objects | local]
 *
 * With `objects`, a thread also uses a window and a file. With `local`, the threads'
 * collectives are those of pairs of ranks. */
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 4000, SERVED = 1000, RING = 2000, PAIRS = 3000, NEXT = 4000, WORKERS = 3 };
static int rank, size, steps, objects, local;
static MPI_Comm own[WORKERS];
static uint64_t sums[WORKERS];

static uint64_t mixed(uint64_t value)
{
    return value * 6364136223846793005u + 1442695040888963407u;
}

/* Answers the rank below this one, until that rank has no more questions. */
static void *serve(void *unused)
{
    (void)unused;
    for (uint64_t asked = 1, state = rank; asked;) {
        MPI_Status status;
        MPI_Recv(&asked, 1, MPI_UINT64_T, MPI_ANY_SOURCE, SERVED, MPI_COMM_WORLD, &status);
        state = mixed(state ^ asked);
        if (asked)
            MPI_Send(&state, 1, MPI_UINT64_T, status.MPI_SOURCE, SERVED + 1, MPI_COMM_WORLD);
        sums[0] = state;
    }
    return NULL;
}

/* A window and a file, while other threads wait for other processes. */
static uint64_t put(MPI_Comm comm, uint64_t value)
{
    uint64_t *memory, all = 0;
    MPI_Win window;
    MPI_Win_allocate(size * sizeof *memory, sizeof *memory, MPI_INFO_NULL, comm, &memory, &window);
    MPI_File file;
    MPI_File_open(comm, "multiple.data", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    for (int step = 1; step <= steps; step++) {
        MPI_Win_fence(0, window);
        for (int to = 0; to < size; to++)
            MPI_Put(&value, 1, MPI_UINT64_T, to, rank, 1, MPI_UINT64_T, window);
        MPI_Win_fence(0, window);
        for (int from = 0; from < size; from++)
            all = mixed(all ^ memory[from]);
        uint64_t word;
        MPI_File_write_at_all(file, (MPI_Offset)(step % 10 * size + rank) * 8, &all, 1, MPI_UINT64_T, MPI_STATUS_IGNORE);
        MPI_File_sync(file);
        MPI_Barrier(comm);
        MPI_File_sync(file);
        MPI_File_read_at(file, (MPI_Offset)(step % 10 * size + (rank + 1) % size) * 8, &word, 1, MPI_UINT64_T, MPI_STATUS_IGNORE);
        value = mixed(value ^ word ^ rank);
    }
    MPI_File_close(&file);
    MPI_Win_free(&window);
    return all;
}

/*
 * Collectives on a communicator of this thread, whose sums depend on the order of the
 * terms, and a ring.
 */
static void *reduce(void *unused)
{
    (void)unused;
    double field[64], all[64];
    uint64_t value = rank + 7;
    MPI_Comm mine;
    int rank, size;
    MPI_Comm_dup(own[1], &mine);
    MPI_Comm_rank(mine, &rank);
    MPI_Comm_size(mine, &size);
    for (int i = 0; i < 64; i++)
        field[i] = 1.0 / (1 + i + rank * 3);
    for (int step = 1; step <= steps; step++) {
        MPI_Allreduce(field, all, 64, MPI_DOUBLE, MPI_SUM, mine);
        for (int i = 0; i < 64; i++)
            field[i] = field[i] * 0.75 + all[(i + 1) % 64] / (1 + step % 7);
        uint64_t came;
        MPI_Sendrecv(&value, 1, MPI_UINT64_T, (rank + 1) % size, RING, &came, 1, MPI_UINT64_T, (rank + size - 1) % size, RING,
                     mine, MPI_STATUS_IGNORE);
        value = mixed(value ^ came);
        MPI_Bcast(&value, 1, MPI_UINT64_T, step % size, mine);
        if (step % 10 == 0) {
            MPI_Comm half;
            MPI_Comm_split(mine, rank % 2, step % 3 ? rank : -rank, &half);
            MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_UINT64_T, MPI_BXOR, half);
            MPI_Comm_free(&half);
            value += rank;
        }
    }
    memcpy(&sums[1], &field[rank], 8);
    sums[1] ^= value;
    if (objects)
        sums[1] ^= put(mine, value);
    MPI_Comm_free(&mine);
    return NULL;
}

/* Requests that are completed in several ways, and messages that are probed. */
static void *exchange(void *unused)
{
    (void)unused;
    MPI_Comm mine;
    int rank, size;
    MPI_Comm_dup(own[2], &mine);
    MPI_Comm_rank(mine, &rank);
    MPI_Comm_size(mine, &size);
    uint64_t out[3] = {rank, rank * 2 + 1, 5}, in[3], state = rank;
    int up = (rank + 1) % size, down = (rank + size - 1) % size;
    for (int step = 1; step <= steps; step++) {
        MPI_Request requests[6];
        for (int i = 0; i < 3; i++) {
            MPI_Irecv(&in[i], 1, MPI_UINT64_T, down, PAIRS + i, mine, &requests[i]);
            MPI_Isend(&out[i], 1, MPI_UINT64_T, up, PAIRS + i, mine, &requests[3 + i]);
        }
        if (step % 3 == 0) {
            for (int left = 6, which; left > 0; left--)
                MPI_Waitany(6, requests, &which, MPI_STATUS_IGNORE);
        } else if (step % 3 == 1) {
            for (int left = 6, ended, which[6]; left > 0; left -= ended)
                MPI_Waitsome(6, requests, &ended, which, MPI_STATUSES_IGNORE);
        } else {
            MPI_Waitall(6, requests, MPI_STATUSES_IGNORE);
        }
        for (int i = 0; i < 3; i++)
            state = mixed(state ^ in[i]);
        MPI_Request request;
        MPI_Isend(&state, 1, MPI_UINT64_T, down, PAIRS + 3, mine, &request);
        MPI_Status status;
        MPI_Message message;
        uint64_t came;
        if (step % 2) {
            MPI_Probe(up, MPI_ANY_TAG, mine, &status);
            MPI_Recv(&came, 1, MPI_UINT64_T, status.MPI_SOURCE, status.MPI_TAG, mine, &status);
        } else {
            MPI_Mprobe(up, PAIRS + 3, mine, &message, &status);
            MPI_Mrecv(&came, 1, MPI_UINT64_T, &message, &status);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < 3; i++)
            out[i] = mixed(out[i] + came + i);
        if (step % 5 == 0)
            MPI_Barrier(mine);
    }
    sums[2] = state;
    MPI_Comm_free(&mine);
    return NULL;
}

int main(int argc, char **argv)
{
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    steps = argc > 1 ? atoi(argv[1]) : 100;
    objects = argc > 2 && strcmp(argv[2], "objects") == 0;
    local = argc > 2 && !objects;
    if (level < MPI_THREAD_MULTIPLE)
        abort();
    for (int i = 0; i < WORKERS; i++)
        MPI_Comm_split(MPI_COMM_WORLD, local ? (rank + i) / 2 : 0, rank, &own[i]);
    void *(*work[WORKERS])(void *) = {serve, reduce, exchange};
    pthread_t threads[WORKERS];
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&threads[i], NULL, work[i], NULL);
    double *field = calloc(CELLS, sizeof *field), all = 0;
    uint64_t state = rank;
    for (int step = 1; step <= steps; step++) {
        for (int i = 0; i < CELLS; i++)
            field[i] = field[i] * 0.75 + (double)((i * 7 + step + rank) % 13) / (1 + state % 5);
        /*
         * The answer comes from a thread of the next rank, which waits for nothing
         * else.
         */
        uint64_t question = step, answer;
        MPI_Send(&question, 1, MPI_UINT64_T, (rank + 1) % size, SERVED, MPI_COMM_WORLD);
        MPI_Recv(&answer, 1, MPI_UINT64_T, (rank + 1) % size, SERVED + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        state = mixed(state ^ answer);
        double sum = state % 1000;
        for (int i = 0; i < CELLS; i++)
            sum += field[i];
        if (local)
            MPI_Sendrecv(&sum, 1, MPI_DOUBLE, (rank + 1) % size, NEXT, &all, 1, MPI_DOUBLE, (rank + size - 1) % size, NEXT, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
        else
            MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0 && step % 5 == 0) {
            printf("step %d: %.17g\n", step, all);
            fflush(stdout);
        }
    }
    uint64_t end = 0;
    MPI_Send(&end, 1, MPI_UINT64_T, (rank + 1) % size, SERVED, MPI_COMM_WORLD);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < WORKERS; i++) {
        state = mixed(state ^ sums[i]);
        MPI_Comm_free(&own[i]);
    }
    MPI_Allreduce(MPI_IN_PLACE, &state, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("all: %016llx\n", (unsigned long long)state);
    free(field);
    MPI_Finalize();
    return 0;
}
