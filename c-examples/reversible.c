/*
 * reversible: steps that survivors of a failure undo, instead of keeping copies.
 *
 *   mpirun -n 4 reversible CELLS STEPS [WAY] [memory]
 *
 *   CELLS    of each rank, in a chain of masses and springs closed to a ring
 *   WAY      undo   the chain is declared as reversible (understudy.h)
 *            kept   no declaration
 *            crash, hang, call, decline   like undo, with a function that fails:
 *                   a fatal signal, an endless loop, a call of MPI, another result
 *   memory   each rank prints its amount of shared memory at the end
 *
 * In a step, all positions move, the ends are exchanged with both neighbours, all
 * velocities change, and a random mass gets a kick. In integers, each of these parts
 * has an exact inverse. With -DNUMBER=double results are rounded, and understudy
 * detects that undoing a step gives other bytes.
 *
 * Prints the state of rank 0 every 10 steps, and a sum over all ranks at the end.
 */
#define _DEFAULT_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <understudy.h>

#ifdef NUMBER
#define TIMES(force) ((force)*0.015)
#else
#define NUMBER int64_t
#define TIMES(force) ((force) >> 6)
#endif
typedef NUMBER number;

/* All data that steps change: the region. */
typedef struct chain {
    uint64_t random;
    number *position, *velocity;
    number cell[];
} chain;

/* Data that neighbours have sent, for the steps that may have to be undone. */
enum { REMEMBERED = 1024 };
static number ends[REMEMBERED][2];

/* Progress of the program, which `undo` reads in the middle of a step. */
enum stage { BEGUN, MOVED, CHANGED, KICKED };
static volatile enum stage stage;
static volatile long long current;

static long cells;
static const char *way = "undo";

/* --- the parts of a step, forward (sign 1) and back (-1) ------------------- */

static void move(chain *it, int sign)
{
    for (long i = 0; i < cells; i++)
        it->position[i] += sign * it->velocity[i];
}

static void change(chain *it, const number *end, int sign)
{
    for (long i = 0; i < cells; i++) {
        number left = i > 0 ? it->position[i - 1] : end[0];
        number right = i < cells - 1 ? it->position[i + 1] : end[1];
        it->velocity[i] += sign * TIMES(left + right - 2 * it->position[i]);
    }
}

/* A linear congruential generator and its inverse. */
#define FACTOR 6364136223846793005u
#define INVERSE 13877824140714322085u
#define TERM 1442695040888963407u

static void kick(chain *it, int sign)
{
    if (sign > 0)
        it->random = it->random * FACTOR + TERM;
    it->velocity[(it->random >> 20) % cells] += sign * (number)(it->random >> 50);
    if (sign < 0)
        it->random = (it->random - TERM) * INVERSE;
}

static void exchange(const chain *it, number *end)
{
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int left = (rank + size - 1) % size, right = (rank + 1) % size, bytes = sizeof *end;
    MPI_Sendrecv(&it->position[cells - 1], bytes, MPI_BYTE, right, 0, &end[0], bytes, MPI_BYTE, left, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(&it->position[0], bytes, MPI_BYTE, left, 1, &end[1], bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static void step(chain *it, long long number_of_step)
{
    stage = BEGUN;
    current = number_of_step;
    move(it, 1);
    stage = MOVED;
    exchange(it, ends[current % REMEMBERED]);
    change(it, ends[current % REMEMBERED], 1);
    stage = CHANGED;
    kick(it, 1);
    stage = KICKED;
}

/* --- back ------------------------------------------------------------------ */

static void fail(void)
{
    if (!strcmp(way, "crash"))
        *(volatile int *)NULL = 1;
    while (!strcmp(way, "hang"))
        ;
    if (!strcmp(way, "call"))
        MPI_Barrier(MPI_COMM_WORLD);
}

static int undo(void *memory, size_t bytes, long long number_of_step, int is_partial, void *argument)
{
    chain *it = memory;
    enum stage done = KICKED;
    (void)bytes, (void)argument;
    if (is_partial)
        done = number_of_step == current ? stage : BEGUN;
    if (!is_partial)
        fail();
    if (current - number_of_step >= REMEMBERED || !strcmp(way, "decline"))
        return 1;
    if (done >= KICKED)
        kick(it, -1);
    if (done >= CHANGED)
        change(it, ends[number_of_step % REMEMBERED], -1);
    if (done >= MOVED)
        move(it, -1);
    return 0;
}

/* --- the program ------------------------------------------------------------- */

static uint64_t sum(const chain *it)
{
    uint64_t sum = it->random;
    for (long i = 0; i < 2 * cells; i++) {
        uint64_t bits;
        memcpy(&bits, &it->cell[i], sizeof bits);
        sum = sum * 31 + bits;
    }
    return sum;
}

static void tell_memory(int rank)
{
    char line[128];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "RssShmem:", 9))
            fprintf(stderr, "rank %d: %ld KiB of shared memory\n", rank, atol(line + 9));
    if (status)
        fclose(status);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    cells = argc > 1 ? atol(argv[1]) : 1000;
    long steps = argc > 2 ? atol(argv[2]) : 100;
    if (argc > 3)
        way = argv[3];
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    size_t bytes = sizeof(chain) + 2 * cells * sizeof(number);
    /* The region's pages contain nothing else. */
    chain *it = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (it == MAP_FAILED)
        MPI_Abort(MPI_COMM_WORLD, 1);
    it->random = rank;
    it->position = it->cell;
    it->velocity = it->cell + cells;
    for (long i = 0; i < cells; i++)
        it->position[i] = (number)((i * 7919 + rank * 104729) % 1000003) * 4096;
    if (strcmp(way, "kept"))
        understudy_reversible(it, bytes, undo, NULL);
    for (long long now = 1; now <= steps; now++) {
        step(it, now);
        understudy_step(now);
        understudy_point();
        if (rank == 0 && now % 10 == 0) {
            printf("step %lld: %016llx\n", now, (unsigned long long)sum(it));
            fflush(stdout);
        }
    }
    uint64_t own = sum(it), all = 0;
    MPI_Reduce(&own, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("all: %016llx\n", (unsigned long long)all);
    if (argc > 4 && !strcmp(argv[4], "memory"))
        tell_memory(rank);
    MPI_Finalize();
    return 0;
}
