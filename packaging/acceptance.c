/* The program of `understudy accept`.
 *
 *     acceptance ITERATIONS
 *
 * The workers exchange data by messages of several sizes, derived datatypes, receives that stay
 * open while checkpoints are taken, persistent requests, collectives and windows. Each worker
 * writes checksums of its memory into the file worker-RANK, and worker 0 prints all checksums.
 * Numbers are integers, so results do not depend on the order in which MPI combines them, and a
 * checksum depends on every byte that was ever received.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Elements of the messages: 64 bytes, 16 KiB and 512 KiB. */
static const int sizes[] = {8, 2048, 65536};
enum { LARGEST = 65536, WINDOW = 4096, LATE = 2048, DIGEST = 16, REPORT_EVERY = 4 };

static int rank, size, left, right;
/* Data of this worker, the last messages from both sides, and the memory of the window. */
static uint64_t *field, *from_left, *from_right, *window_memory;
/* The last messages of a receive that is posted two iterations before, and of a persistent one. */
static uint64_t *from_open, *from_persistent;
static MPI_Request open_receive, persistent_receive;
static MPI_Datatype every_other[3];
static MPI_Comm half;
static MPI_Win window;

static uint64_t mix(uint64_t a, uint64_t b)
{
    a ^= b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2);
    a *= 0xbf58476d1ce4e5b9u;
    return a ^ (a >> 29);
}

static uint64_t *numbers(int count)
{
    uint64_t *all = malloc((size_t)count * sizeof *all);
    if (all == NULL) {
        fprintf(stderr, "acceptance: no memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int i = 0; i < count; i++)
        all[i] = mix((uint64_t)rank + 1, (uint64_t)i);
    return all;
}

static void exchange_messages(int kind)
{
    MPI_Request requests[2];
    int count = sizes[kind];
    MPI_Irecv(from_left, count, MPI_UINT64_T, left, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(field, count, MPI_UINT64_T, right, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Sendrecv(field, 1, every_other[kind], left, 2, from_right, 1, every_other[kind], right, 2,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < count; i++)
        field[i] = mix(field[i], from_left[i] + 3 * from_right[i]);
}

/* A network device may write the memory of these receives at any time between two checkpoints. */
static void exchange_late_messages(int iteration)
{
    switch (iteration % 3) {
    case 1:
        MPI_Irecv(from_open, LATE, MPI_UINT64_T, left, 3, MPI_COMM_WORLD, &open_receive);
        break;
    case 2:
        MPI_Start(&persistent_receive);
        MPI_Send(field, LATE, MPI_UINT64_T, right, 4, MPI_COMM_WORLD);
        MPI_Wait(&persistent_receive, MPI_STATUS_IGNORE);
        break;
    default:
        MPI_Send(field, LATE, MPI_UINT64_T, right, 3, MPI_COMM_WORLD);
        MPI_Wait(&open_receive, MPI_STATUS_IGNORE);
    }
}

static uint64_t sum_of(uint64_t sum, const uint64_t *part, int count)
{
    for (int i = 0; i < count; i++)
        sum = mix(sum, part[i]);
    return sum;
}

/* Checksum of all memory that MPI has written. An open receive may write its memory already. */
static uint64_t received(int is_open)
{
    uint64_t sum = sum_of(0, from_left, LARGEST);
    sum = sum_of(sum, from_right, LARGEST);
    sum = sum_of(sum, window_memory, WINDOW);
    sum = sum_of(sum, from_persistent, LATE);
    return is_open ? sum : sum_of(sum, from_open, LATE);
}

static void combine(int iteration)
{
    uint64_t digest[DIGEST], sums[DIGEST], word = 0, largest = 0;
    for (int i = 0; i < DIGEST; i++)
        digest[i] = field[(i * 4099 + iteration) % LARGEST];
    MPI_Allreduce(digest, sums, DIGEST, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (rank == iteration % size)
        word = sums[0] + field[1];
    MPI_Bcast(&word, 1, MPI_UINT64_T, iteration % size, MPI_COMM_WORLD);
    MPI_Allreduce(&digest[1], &largest, 1, MPI_UINT64_T, MPI_MAX, half);
    uint64_t *to = numbers(size), *from = numbers(size);
    for (int i = 0; i < size; i++)
        to[i] = mix(word, (uint64_t)i);
    MPI_Alltoall(to, 1, MPI_UINT64_T, from, 1, MPI_UINT64_T, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
        field[i % LARGEST] = mix(field[i % LARGEST], from[i] + largest);
    for (int i = 0; i < DIGEST; i++)
        field[LARGEST - 1 - i] = mix(field[LARGEST - 1 - i], sums[i]);
    free(to);
    free(from);
}

/* One half of the window is written by one worker, and the other half is added to by all. */
static void reach(void)
{
    int part = WINDOW / 2;
    MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
    MPI_Put(field, part, MPI_UINT64_T, right, 0, part, MPI_UINT64_T, window);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    for (int target = 0; target < size; target++) {
        MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window);
        MPI_Accumulate(field, DIGEST, MPI_UINT64_T, target, part, DIGEST, MPI_UINT64_T, MPI_SUM,
                       window);
        MPI_Win_unlock(target, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
    MPI_Get(from_right, WINDOW, MPI_UINT64_T, right, 0, WINDOW, MPI_UINT64_T, window);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    for (int i = 0; i < WINDOW; i++)
        field[i] = mix(field[i], from_right[i]);
}

static void report(int iteration, FILE *file)
{
    uint64_t sum = sum_of(received(1), field, LARGEST), *all = rank == 0 ? numbers(size) : NULL;
    fprintf(file, "%d %016llx\n", iteration, (unsigned long long)sum);
    fflush(file);
    MPI_Gather(&sum, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < size; i++)
        printf("%d: worker %d %016llx\n", iteration, i, (unsigned long long)all[i]);
    fflush(stdout);
    free(all);
}

int main(int argc, char **argv)
{
    int iterations = argc > 1 ? atoi(argv[1]) : 0;
    char name[32];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    snprintf(name, sizeof name, "worker-%d", rank);
    FILE *file = fopen(name, "w");
    if (file == NULL) {
        perror(name);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    field = numbers(LARGEST);
    from_left = numbers(LARGEST);
    from_right = numbers(LARGEST);
    window_memory = numbers(WINDOW);
    from_open = numbers(LATE);
    from_persistent = numbers(LATE);
    MPI_Recv_init(from_persistent, LATE, MPI_UINT64_T, left, 4, MPI_COMM_WORLD,
                  &persistent_receive);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    for (int kind = 0; kind < 3; kind++) {
        MPI_Type_vector(sizes[kind] / 2, 1, 2, MPI_UINT64_T, &every_other[kind]);
        MPI_Type_commit(&every_other[kind]);
    }
    MPI_Win_create(window_memory, WINDOW * sizeof *window_memory, sizeof *window_memory,
                   MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    for (int iteration = 1; iteration <= iterations; iteration++) {
        /* A page that a checkpoint has missed changes the results before MPI writes it again. */
        field[1] = mix(field[1], received(iteration % 3 != 1));
        exchange_messages(iteration % 3);
        exchange_late_messages(iteration);
        combine(iteration);
        if (iteration % 3 == 0)
            reach();
        if (iteration % REPORT_EVERY == 0)
            report(iteration, file);
    }
    MPI_Request_free(&persistent_receive);
    MPI_Win_free(&window);
    MPI_Comm_free(&half);
    for (int kind = 0; kind < 3; kind++)
        MPI_Type_free(&every_other[kind]);
    if (fclose(file) != 0) {
        perror(name);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
