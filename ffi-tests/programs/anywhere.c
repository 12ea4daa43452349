/*
 * Loops without a blocking collective over all ranks: anywhere HOW STEPS.
 *
 * HOW is one of:
 *
 * - `ring`: MPI_Sendrecv and MPI_Sendrecv_replace
 * - `halo`: MPI_Isend, MPI_Irecv and all kinds of waits and tests
 * - `farm`: rank 0 sends tasks to the ranks that request them
 * - `pairs`: blocking and persistent messages, probes
 * - `rows`: a ring, and collectives of rows and columns
 * - `sparse`: synchronous sends and a non-blocking barrier
 * - `looks`: MPI_Request_get_status, MPI_Parrived and MPI_Buffer_detach
 * - `memory`: pairs, in which one rank waits in shared memory, without MPI
 * - `post`: halos by post, start, complete and wait of windows
 * - `locks`: sums under all kinds of locks of windows
 * - `queue`: tasks by MPI_Fetch_and_op and results by MPI_Accumulate in one
 *   access epoch of MPI_Win_lock_all
 * - `fences`: fences of windows of rows and of columns
 * - `record`: a ring that writes and reads a file by MPI
 */
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELLS 512

static int rank, size;

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = a * 0x9e3779b97f4a7c15u + b + 0x1234567u;
    z ^= z >> 29;
    z *= 0xbf58476d1ce4e5b9u;
    return z ^ (z >> 32);
}

/* Some work, so that steps take time. */
static uint64_t work(uint64_t value, int rounds)
{
    for (int i = 0; i < rounds; i++)
        value = mix(value, i);
    return value;
}

static uint64_t ring(int steps)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    uint64_t own[CELLS], came[CELLS];
    for (int i = 0; i < CELLS; i++)
        own[i] = mix(rank, i);
    for (int step = 0; step < steps; step++) {
        MPI_Status status;
        MPI_Sendrecv(own, CELLS, MPI_UINT64_T, right, step % 5, came, CELLS, MPI_UINT64_T, left, step % 5, MPI_COMM_WORLD, &status);
        int count;
        MPI_Get_count(&status, MPI_UINT64_T, &count);
        if (count != CELLS || status.MPI_SOURCE != left || status.MPI_TAG != step % 5)
            printf("rank %d, step %d: %d from %d, tag %d\n", rank, step, count, status.MPI_SOURCE, status.MPI_TAG);
        for (int i = 0; i < CELLS; i++)
            own[i] = mix(own[i], came[i]);
        MPI_Sendrecv_replace(own, CELLS, MPI_UINT64_T, left, 7, right, 7, MPI_COMM_WORLD, &status);
        if (status.MPI_SOURCE != right || status.MPI_TAG != 7)
            printf("rank %d, step %d: replaced from %d, tag %d\n", rank, step, status.MPI_SOURCE, status.MPI_TAG);
        own[step % CELLS] = work(own[step % CELLS], 20000);
    }
    uint64_t sum = 0;
    for (int i = 0; i < CELLS; i++)
        sum = mix(sum, own[i]);
    return sum;
}

/* Waits in another way in every step; the data must have arrived afterwards. */
static void wait_for(int step, int count, MPI_Request *requests, const int *from)
{
    MPI_Status statuses[4];
    int flag = 0, index, some, indices[4];
    switch (step % 6) {
    case 0:
        MPI_Waitall(count, requests, statuses);
        for (int i = 0; i < count; i++)
            if (from[i] >= 0 && statuses[i].MPI_SOURCE != from[i])
                printf("rank %d, step %d: request %d from %d\n", rank, step, i, statuses[i].MPI_SOURCE);
        break;
    case 1:
        for (int i = 0; i < count; i++) {
            MPI_Waitany(count, requests, &index, statuses);
            if (from[index] >= 0 && statuses[0].MPI_SOURCE != from[index])
                printf("rank %d, step %d: any request %d from %d\n", rank, step, index, statuses[0].MPI_SOURCE);
        }
        break;
    case 2:
        for (int done = 0; done < count; done += some)
            MPI_Waitsome(count, requests, &some, indices, statuses);
        break;
    case 3:
        while (!flag)
            MPI_Testall(count, requests, &flag, statuses);
        break;
    case 4:
        for (int i = count - 1; i >= 0; i--) {
            MPI_Wait(&requests[i], statuses);
            if (from[i] >= 0 && statuses[0].MPI_SOURCE != from[i])
                printf("rank %d, step %d: waited for %d from %d\n", rank, step, i, statuses[0].MPI_SOURCE);
        }
        break;
    default:
        for (int i = 0; i < count; i++)
            for (flag = 0; !flag;)
                MPI_Test(&requests[i], &flag, statuses);
    }
}

static uint64_t halo(int steps)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    static uint64_t cells[CELLS + 2], next[CELLS + 2];
    const int from[4] = {left, right, -1, -1};
    for (int i = 0; i < CELLS; i++)
        cells[i + 1] = mix(rank, i);
    for (int step = 0; step < steps; step++) {
        MPI_Request requests[4];
        MPI_Irecv(&cells[0], 1, MPI_UINT64_T, left, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(&cells[CELLS + 1], 1, MPI_UINT64_T, right, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Isend(&cells[CELLS], 1, MPI_UINT64_T, right, 1, MPI_COMM_WORLD, &requests[2]);
        MPI_Isend(&cells[1], 1, MPI_UINT64_T, left, 2, MPI_COMM_WORLD, &requests[3]);
        next[CELLS / 2] = work(cells[CELLS / 2], 20000);
        wait_for(step, 4, requests, from);
        for (int i = 1; i <= CELLS; i++)
            next[i] = mix(cells[i - 1] ^ cells[i + 1], cells[i]);
        memcpy(&cells[1], &next[1], CELLS * sizeof *cells);
    }
    uint64_t sum = 0;
    for (int i = 1; i <= CELLS; i++)
        sum = mix(sum, cells[i]);
    return sum;
}

/* Tasks are numbers; a result does not depend on the rank that computes it. */
static uint64_t farm(int tasks)
{
    uint64_t message[2] = {0, 0}, sum = 0;
    MPI_Status status;
    if (rank != 0) {
        for (;;) {
            MPI_Send(message, 2, MPI_UINT64_T, 0, 1, MPI_COMM_WORLD);
            MPI_Recv(message, 1, MPI_UINT64_T, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            if (status.MPI_TAG == 3)
                return 0;
            message[1] = work(message[0], 10000 + 5000 * (message[0] % 7));
        }
    }
    for (int next = 1, busy = size - 1; busy > 0;) {
        if (next % 3 == 0)
            MPI_Probe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
        if (next % 3 == 1)
            for (int flag = 0; !flag;)
                MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &flag, &status);
        MPI_Recv(message, 2, MPI_UINT64_T, next % 3 == 2 ? MPI_ANY_SOURCE : status.MPI_SOURCE, 1, MPI_COMM_WORLD, &status);
        sum += mix(message[0], message[1]);
        uint64_t task = next;
        if (next <= tasks) {
            MPI_Send(&task, 1, MPI_UINT64_T, status.MPI_SOURCE, 2, MPI_COMM_WORLD);
            next++;
        } else {
            MPI_Send(&task, 1, MPI_UINT64_T, status.MPI_SOURCE, 3, MPI_COMM_WORLD);
            busy--;
        }
    }
    return sum;
}

static uint64_t pairs(int steps)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    static uint64_t own[CELLS], came[CELLS], large[1 << 15];
    uint64_t token = rank, sum = rank;
    MPI_Request persistent[2];
    MPI_Send_init(own, CELLS, MPI_UINT64_T, right, 4, MPI_COMM_WORLD, &persistent[0]);
    MPI_Recv_init(came, CELLS, MPI_UINT64_T, left, 4, MPI_COMM_WORLD, &persistent[1]);
    for (int step = 0; step < steps; step++) {
        MPI_Status status;
        MPI_Message message;
        for (int i = 0; i < CELLS; i++)
            own[i] = mix(sum, i);
        MPI_Startall(2, persistent);
        /*
         * The ranks send one after the other around the ring, so that blocking
         * sends of any length are correct.
         */
        if (rank == 0) {
            if (step % 2)
                MPI_Ssend(&token, 1, MPI_UINT64_T, right, 1, MPI_COMM_WORLD);
            else
                MPI_Send(&token, 1, MPI_UINT64_T, right, 1, MPI_COMM_WORLD);
            MPI_Mprobe(left, 1, MPI_COMM_WORLD, &message, &status);
            MPI_Mrecv(&token, 1, MPI_UINT64_T, &message, &status);
        } else {
            MPI_Recv(&token, 1, MPI_UINT64_T, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
            token = work(mix(token, sum), 5000);
            MPI_Send(&token, 1, MPI_UINT64_T, right, 1, MPI_COMM_WORLD);
        }
        MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE);
        for (int i = 0; i < CELLS; i++)
            sum = mix(sum, came[i]);
        sum = mix(sum, token);
        /* A message that is longer than any library sends eagerly. */
        large[step % (1 << 15)] = sum;
        if (rank % 2 == 0 && rank + 1 < size)
            MPI_Send(large, 1 << 15, MPI_UINT64_T, rank + 1, 9, MPI_COMM_WORLD);
        if (rank % 2 == 1) {
            MPI_Recv(large, 1 << 15, MPI_UINT64_T, rank - 1, 9, MPI_COMM_WORLD, &status);
            sum = mix(sum, large[step % (1 << 15)]);
        }
    }
    MPI_Request_free(&persistent[0]);
    MPI_Request_free(&persistent[1]);
    return sum;
}

static uint64_t rows(int steps)
{
    MPI_Comm row, column;
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &row);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &column);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    uint64_t own = rank, came, sum, first;
    for (int step = 0; step < steps; step++) {
        own = work(own, 20000);
        MPI_Allreduce(&own, &sum, 1, MPI_UINT64_T, MPI_SUM, row);
        first = mix(sum, step);
        MPI_Bcast(&first, 1, MPI_UINT64_T, step % 2, column);
        MPI_Sendrecv(&first, 1, MPI_UINT64_T, right, 1, &came, 1, MPI_UINT64_T, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        own = mix(sum, mix(first, came));
    }
    MPI_Comm_free(&row);
    MPI_Comm_free(&column);
    return own;
}

static uint64_t post(int steps)
{
    int near[2] = {(rank + size - 1) % size, (rank + 1) % size}, flag;
    static uint64_t cells[CELLS + 2], next[CELLS + 2];
    MPI_Win win;
    MPI_Group all, neighbours;
    MPI_Win_create(cells, sizeof cells, sizeof *cells, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_get_group(win, &all);
    MPI_Group_incl(all, near[0] == near[1] ? 1 : 2, near, &neighbours);
    for (int i = 0; i < CELLS; i++)
        cells[i + 1] = mix(rank, i);
    for (int step = 0; step < steps; step++) {
        MPI_Win_post(neighbours, 0, win);
        next[CELLS / 2] = work(cells[CELLS / 2], 10000);
        MPI_Win_start(neighbours, 0, win);
        MPI_Put(&cells[1], 1, MPI_UINT64_T, near[0], CELLS + 1, 1, MPI_UINT64_T, win);
        MPI_Put(&cells[CELLS], 1, MPI_UINT64_T, near[1], 0, 1, MPI_UINT64_T, win);
        MPI_Win_complete(win);
        if (step % 3)
            MPI_Win_wait(win);
        else
            for (flag = 0; !flag;)
                MPI_Win_test(win, &flag);
        for (int i = 1; i <= CELLS; i++)
            next[i] = mix(cells[i - 1] ^ cells[i + 1], cells[i]);
        memcpy(&cells[1], &next[1], CELLS * sizeof *cells);
    }
    MPI_Group_free(&neighbours);
    MPI_Group_free(&all);
    MPI_Win_free(&win);
    uint64_t sum = 0;
    for (int i = 1; i <= CELLS; i++)
        sum = mix(sum, cells[i]);
    return sum;
}

/* Adds to two cells that are not adjacent, so that the library transfers them. */
static void add_apart(MPI_Win win, MPI_Datatype pair, int to, int at, uint64_t add)
{
    uint64_t cells[3];
    MPI_Get(cells, 1, pair, to, at, 1, pair, win);
    MPI_Win_flush(to, win);
    cells[0] += add;
    cells[2] += 2 * add;
    MPI_Put(cells, 1, pair, to, at, 1, pair, win);
}

static uint64_t locks(int steps)
{
    uint64_t *cells, old, add;
    MPI_Win win;
    MPI_Datatype pair;
    MPI_Type_vector(2, 1, 2, MPI_UINT64_T, &pair);
    MPI_Type_commit(&pair);
    MPI_Win_allocate(2 * CELLS * sizeof *cells, sizeof *cells, MPI_INFO_NULL, MPI_COMM_WORLD, &cells, &win);
    memset(cells, 0, 2 * CELLS * sizeof *cells);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int step = 0; step < steps; step++) {
        int to = mix(rank, step) % size, at = mix(step, rank) % (CELLS - 2);
        add = work(mix(rank, step), 10000);
        switch (step % 16) {
        case 3:
            MPI_Win_lock_all(0, win);
            for (int i = 0; i < size; i++)
                MPI_Accumulate(&add, 1, MPI_UINT64_T, i, CELLS + at, 1, MPI_UINT64_T, MPI_SUM, win);
            MPI_Win_flush_all(win);
            MPI_Win_unlock_all(win);
            break;
        case 7:
            MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
            MPI_Accumulate(&add, 1, MPI_UINT64_T, to, CELLS + at, 1, MPI_UINT64_T, MPI_SUM, win);
            MPI_Win_unlock(to, win);
            break;
        case 11:
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win);
            add_apart(win, pair, to, at, add);
            MPI_Win_unlock(to, win);
            break;
        default:
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win);
            MPI_Get(&old, 1, MPI_UINT64_T, to, at, 1, MPI_UINT64_T, win);
            MPI_Win_flush(to, win);
            /* In some steps, this rank has the lock for a long time, and others wait. */
            old += step % 128 ? add : work(add, 300000);
            MPI_Put(&old, 1, MPI_UINT64_T, to, at, 1, MPI_UINT64_T, win);
            MPI_Win_unlock(to, win);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    uint64_t sum = 0;
    for (int i = 0; i < 2 * CELLS; i++)
        sum = mix(sum, cells[i]);
    MPI_Type_free(&pair);
    MPI_Win_free(&win);
    return sum;
}

static uint64_t queue(int tasks)
{
    uint64_t *numbers, one = 1, task = 0, sum;
    MPI_Win win;
    MPI_Win_allocate(rank == 0 ? 2 * sizeof *numbers : 0, sizeof *numbers, MPI_INFO_NULL, MPI_COMM_WORLD, &numbers, &win);
    if (rank == 0)
        numbers[0] = numbers[1] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    for (;;) {
        MPI_Fetch_and_op(&one, &task, MPI_UINT64_T, 0, 0, MPI_SUM, win);
        MPI_Win_flush(0, win);
        if (task >= (uint64_t)tasks)
            break;
        sum = work(task, 10000 + 5000 * (task % 7));
        MPI_Accumulate(&sum, 1, MPI_UINT64_T, 0, 1, 1, MPI_UINT64_T, MPI_SUM, win);
        MPI_Win_flush_local(0, win);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    sum = rank == 0 ? numbers[1] : 0;
    MPI_Win_free(&win);
    return sum;
}

static uint64_t fences(int steps)
{
    MPI_Comm row, column;
    MPI_Win wins[2];
    static uint64_t cells[2][4], own;
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &row);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &column);
    MPI_Win_create(cells[0], sizeof cells[0], sizeof(uint64_t), MPI_INFO_NULL, row, &wins[0]);
    MPI_Win_create(cells[1], sizeof cells[1], sizeof(uint64_t), MPI_INFO_NULL, column, &wins[1]);
    own = rank;
    for (int step = 0; step < steps; step++) {
        int which = step % 2, me, n;
        MPI_Comm_rank(which ? column : row, &me);
        MPI_Comm_size(which ? column : row, &n);
        MPI_Win_fence(MPI_MODE_NOPRECEDE, wins[which]);
        MPI_Put(&own, 1, MPI_UINT64_T, (me + 1) % n, step / 2 % 4, 1, MPI_UINT64_T, wins[which]);
        MPI_Win_fence(step % 3 ? MPI_MODE_NOSUCCEED : 0, wins[which]);
        own = work(mix(own, cells[which][step / 2 % 4]), 20000);
    }
    MPI_Win_free(&wins[0]);
    MPI_Win_free(&wins[1]);
    MPI_Comm_free(&row);
    MPI_Comm_free(&column);
    return own;
}

/* Every rank sends messages to some others, which do not know the number of
 * messages. Synchronous sends and a non-blocking barrier detect the end of a step
 * (Hoefler, Siebert and Lumsdaine 2010). A message of one step that arrived in
 * another one would be reported. */
static uint64_t sparse(int steps)
{
    enum { MOST = 4 };
    uint64_t own = rank, sum = 0;
    for (int step = 0; step < steps; step++) {
        uint64_t out[MOST][2], in[2];
        MPI_Request sends[MOST], barrier;
        int count = mix(step, 2 * rank) % (MOST + 1), is_in_barrier = 0, done = 0, tag = step % 2, flag;
        for (int i = 0; i < count; i++) {
            out[i][0] = step;
            out[i][1] = mix(own, i);
            MPI_Issend(out[i], 2, MPI_UINT64_T, mix(step, 100 * rank + i) % size, tag, MPI_COMM_WORLD, &sends[i]);
        }
        uint64_t came = 0;
        while (!done) {
            MPI_Status status;
            MPI_Iprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &flag, &status);
            if (flag) {
                MPI_Recv(in, 2, MPI_UINT64_T, status.MPI_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                if ((int)in[0] != step)
                    printf("rank %d, step %d: a message of step %d\n", rank, step, (int)in[0]);
                came += in[1];
            }
            if (is_in_barrier) {
                MPI_Test(&barrier, &done, MPI_STATUS_IGNORE);
            } else {
                MPI_Testall(count, sends, &flag, MPI_STATUSES_IGNORE);
                if (flag)
                    MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
                is_in_barrier = flag;
            }
        }
        sum = mix(sum, came);
        own = work(mix(own, step), 20000);
    }
    return sum;
}

/* A ring whose ranks poll for messages by procedures that wait for nothing. */
static uint64_t looks(int steps)
{
    enum { PARTS = 2, LARGE = 20000 };
    int right = (rank + 1) % size, left = (rank + size - 1) % size, flag, bytes;
    static uint64_t large[LARGE], much[LARGE];
    uint64_t own = rank, came = 0, parts[PARTS] = {0}, got[PARTS] = {0};
    MPI_Request receive, out, in;
    bytes = sizeof large + MPI_BSEND_OVERHEAD;
    void *buffer = malloc(bytes);
    MPI_Psend_init(parts, PARTS, 1, MPI_UINT64_T, right, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &out);
    MPI_Precv_init(got, PARTS, 1, MPI_UINT64_T, left, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &in);
    for (int step = 0; step < steps; step++) {
        own = work(own, 20000 + 1000 * rank);
        MPI_Irecv(&came, 1, MPI_UINT64_T, left, 1, MPI_COMM_WORLD, &receive);
        MPI_Send(&own, 1, MPI_UINT64_T, right, 1, MPI_COMM_WORLD);
        do
            MPI_Request_get_status(receive, &flag, MPI_STATUS_IGNORE);
        while (!flag);
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
        own = mix(own, came);
        MPI_Startall(2, (MPI_Request[]){in, out});
        for (int i = 0; i < PARTS; i++) {
            parts[i] = mix(own, i);
            MPI_Pready(i, out);
        }
        for (int i = 0; i < PARTS; i++)
            do
                MPI_Parrived(in, i, &flag);
            while (!flag);
        MPI_Waitall(2, (MPI_Request[]){in, out}, MPI_STATUSES_IGNORE);
        own = mix(own, got[step % PARTS]);
        if (step % 8 == 0) {
            large[step % LARGE] = own;
            MPI_Buffer_attach(buffer, bytes);
            MPI_Irecv(much, LARGE, MPI_UINT64_T, left, 2, MPI_COMM_WORLD, &receive);
            MPI_Bsend(large, LARGE, MPI_UINT64_T, right, 2, MPI_COMM_WORLD);
            MPI_Buffer_detach(&buffer, &bytes);
            MPI_Wait(&receive, MPI_STATUS_IGNORE);
            own = mix(own, much[step % LARGE]);
        }
    }
    MPI_Request_free(&in);
    MPI_Request_free(&out);
    free(buffer);
    return own;
}

/*
 * Pairs, of which one rank waits without MPI for a word of shared memory. The
 * other one calls MPI before it writes the word.
 */
static uint64_t memory(int steps)
{
    MPI_Win window;
    volatile uint64_t *words, *theirs;
    MPI_Aint bytes;
    int unit, flag, other = rank ^ 1;
    uint64_t own = rank, came;
    MPI_Win_allocate_shared(sizeof *words, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &words, &window);
    MPI_Win_shared_query(window, other, &bytes, &unit, &theirs);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    for (int step = 1; step <= steps; step++) {
        if (rank % 2 == 0) {
            MPI_Send(&own, 1, MPI_UINT64_T, other, 1, MPI_COMM_WORLD);
            while (*words != (uint64_t)step)
                sched_yield();
            own = work(own, 1000);
        } else {
            MPI_Recv(&came, 1, MPI_UINT64_T, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            own = work(mix(own, came), 20000);
            MPI_Iprobe(other, 2, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
            *theirs = step;
        }
    }
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    return own;
}

/* Writes a record in every step, at varying places; sometimes it is rewritten. */
static uint64_t record(int steps)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    uint64_t own = rank, came, line[4], again[4], sum = 0;
    MPI_File file;
    MPI_Request request;
    MPI_File_open(MPI_COMM_WORLD, "record.dat", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    for (int step = 0; step < steps; step++) {
        own = work(own, 20000);
        MPI_Sendrecv(&own, 1, MPI_UINT64_T, right, 1, &came, 1, MPI_UINT64_T, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        own = mix(own, came);
        for (int i = 0; i < 4; i++)
            line[i] = mix(own, i);
        MPI_Offset place = ((MPI_Offset)(step % 500) * size + rank) * sizeof line;
        MPI_File_iwrite_at(file, place, line, 4, MPI_UINT64_T, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (step % 7 == 0) {
            MPI_File_read_at(file, place, again, 4, MPI_UINT64_T, MPI_STATUS_IGNORE);
            sum = mix(sum, again[step % 4]);
        }
    }
    MPI_File_close(&file);
    return mix(own, sum);
}

static const struct way {
    const char *name;
    uint64_t (*run)(int);
} ways[] = {
    {"ring", ring}, {"halo", halo}, {"farm", farm}, {"pairs", pairs}, {"rows", rows},
    {"post", post}, {"locks", locks}, {"queue", queue}, {"fences", fences}, {"record", record},
    {"sparse", sparse}, {"looks", looks}, {"memory", memory},
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *how = argc > 1 ? argv[1] : "ring";
    int steps = argc > 2 ? atoi(argv[2]) : 1000;
    const struct way *way = ways;
    while (strcmp(way->name, how) != 0)
        way++;
    uint64_t sum = way->run(steps);
    if (rank != 0) {
        MPI_Send(&sum, 1, MPI_UINT64_T, 0, 11, MPI_COMM_WORLD);
    } else {
        for (int from = 0; from < size; from++) {
            if (from > 0)
                MPI_Recv(&sum, 1, MPI_UINT64_T, from, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            printf("%s, rank %d: %016llx\n", how, from, (unsigned long long)sum);
        }
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
