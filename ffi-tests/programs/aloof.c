/* Processes that do not call MPI for a long time.
 *
 *   aloof STEPS MILLISECONDS [memory | threads]
 *
 * The processes compute, allocate, write to files and print; or, with `memory`,
 * wait for each other by polling shared memory. With `threads`, any thread may
 * call MPI, and a second thread computes as well. A process that can remove the
 * file `endless` never stops computing. The process removes the file by a system
 * call of its own, since effects of the C library on files may be undone. */
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

enum { BLOCKS = 64 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

/* A pure function of its argument that takes `ms` milliseconds. */
static uint64_t work(uint64_t seed, int step, int ms)
{
    static char *blocks[BLOCKS];
    char text[200];
    double end = step == 2 && syscall(SYS_unlink, "endless") == 0 ? 1e99 : now() + ms * 1e-3;
    FILE *log = fopen("aloof.log", "a");
    for (int i = 0; i < 20000 || now() < end; i++) {
        char **block = &blocks[(seed + i) % BLOCKS];
        free(*block);
        int length = 1 + (i * 37) % (i % 100 == 0 ? 300000 : 3000);
        *block = malloc(length);
        (*block)[0] = (*block)[length - 1] = (char)i;
        snprintf(text, sizeof text, "%d %.17g", i % 1000, i % 1000 / 7.0);
        if (i < 20000) {
            for (const char *c = text; *c; c++)
                seed = seed * 31 + (unsigned char)*c;
            if (i % 500 == 0) {
                fprintf(log, "%s %016llx\n", text, (unsigned long long)seed);
                fflush(log);
            }
        }
    }
    fclose(log);
    return seed;
}

/* Each process waits for its left neighbour without calling MPI. */
static uint64_t pass_on(_Atomic uint64_t *flags, int step, int ms)
{
    uint64_t sum = rank;
    for (int turn = 1; turn <= 10; turn++) {
        uint64_t mark = (uint64_t)step * 10 + turn;
        if (rank != 0)
            while (atomic_load(&flags[rank - 1]) < mark)
                sched_yield();
        usleep(100 * ms);
        sum = sum * 31 + mark;
        atomic_store(&flags[rank], mark);
        while (atomic_load(&flags[size - 1]) < mark)
            sched_yield();
    }
    return sum;
}

static atomic_ulong idle;

static void *compute(void *nothing)
{
    for (;;) {
        uint64_t *block = malloc(1000 + idle % 1000);
        block[0] = idle++;
        free(block);
    }
    return nothing;
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 5, ms = argc > 2 ? atoi(argv[2]) : 500, unit;
    _Atomic uint64_t *own, *flags;
    MPI_Win win;
    MPI_Aint length;
    int level, threads = argc > 3 && strcmp(argv[3], "threads") == 0, memory = argc > 3 && !threads;
    pthread_t thread;
    MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_SERIALIZED : MPI_THREAD_SINGLE, &level);
    if (threads)
        pthread_create(&thread, NULL, compute, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Win_allocate_shared(sizeof *own, sizeof *own, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &win);
    MPI_Win_shared_query(win, 0, &length, &unit, &flags);
    *own = 0;
    if (rank == 0)
        fclose(fopen("aloof.log", "a"));
    MPI_Barrier(MPI_COMM_WORLD);
    uint64_t total = 1;
    for (int step = 0; step < steps; step++) {
        uint64_t mine = memory ? pass_on(flags, step, ms / 100) : rank == 0 ? work(total, step, ms) : total;
        MPI_Allreduce(&mine, &total, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0) {
            printf("step %d: %016llx\n", step, (unsigned long long)total);
            fflush(stdout);
        }
    }
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
