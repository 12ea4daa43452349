/*
 * OpenMP threads that call MPI one after the other (MPI_THREAD_SERIALIZED).
 *
 *   serialized STEPS THREADS [files | signals | exit | abort]
 *
 * With `files` the threads write files, with `signals` a timer sends signals, and with
 * `exit` and `abort` a thread of rank 1 ends the job.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <omp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { CELLS = 20000, MOST = 64 };
static uint64_t own;
#pragma omp threadprivate(own)
static double field[CELLS];

/*
 * The handler runs in any thread and must find that thread's own data, never those of
 * another thread.
 */
static __thread int is_main;
static volatile sig_atomic_t ticks;

static void on_tick(int signal)
{
    (void)signal;
    if (is_main != (gettid() == getpid()))
        abort();
    ticks++;
}

static void begin_ticks(void)
{
    struct sigaction tick = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    struct itimerval every = {{0, 1000}, {0, 1000}};
    sigaction(SIGALRM, &tick, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
}

/* Each thread writes its own log; its changes of files are undone and repeated. */
static void keep_log(int rank, int me, int step, uint64_t value)
{
    char name[64], old[80];
    snprintf(name, sizeof name, "log-%d-%d", rank, me);
    snprintf(old, sizeof old, "%s.old", name);
    if (step % 10 == 0)
        rename(name, old);
    FILE *log = fopen(name, "a");
    fprintf(log, "%d %016llx\n", step, (unsigned long long)value);
    fclose(log);
}

static uint64_t sum_of_logs(int rank, int threads)
{
    uint64_t sum = 0;
    for (int me = 0; me < threads; me++)
        for (int old = 0; old < 2; old++) {
            char name[80];
            snprintf(name, sizeof name, "log-%d-%d%s", rank, me, old ? ".old" : "");
            FILE *log = fopen(name, "r");
            for (int c; log && (c = fgetc(log)) != EOF;)
                sum = sum * 31 + c;
            if (log)
                fclose(log);
        }
    return sum;
}

/*
 * The main thread ends the job while another one waits for a message that never
 * arrives.
 */
static void end(int by_exit)
{
    int waits = 0;
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 1) {
            int never;
#pragma omp atomic write
            waits = 1;
            MPI_Recv(&never, 1, MPI_INT, MPI_ANY_SOURCE, 1000, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            for (int seen = 0; !seen;)
#pragma omp atomic read
                seen = waits;
            if (by_exit)
                exit(3);
            MPI_Abort(MPI_COMM_WORLD, 4);
        }
    }
}

int main(int argc, char **argv)
{
    int level, rank, size;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int steps = argc > 1 ? atoi(argv[1]) : 100, threads = argc > 2 ? atoi(argv[2]) : 4;
    int logs = argc > 3 && !strcmp(argv[3], "files"), signals = argc > 3 && !strcmp(argv[3], "signals");
    if (level < MPI_THREAD_SERIALIZED)
        abort();
    is_main = 1;
    omp_set_dynamic(0);
    omp_set_num_threads(threads);
    uint64_t total = 0, came[MOST] = {0}, sums[MOST] = {0};
    for (int step = 1; step <= steps; step++) {
#pragma omp parallel
        {
            int me = omp_get_thread_num(), asked = -1;
            if (signals && step == 8 && me == 1)
                begin_ticks();
            MPI_Is_thread_main(&asked);
            if (asked != (me == 0))
                abort();
#pragma omp for schedule(static)
            for (int i = 0; i < CELLS; i++)
                field[i] = field[i] * 0.75 + (double)((i * 7 + step + rank) % 13) / (1 + total % 5);
            for (int i = 0; i < 3000; i++)
                own = own * 6364136223846793005u + me + i;
            /* One after the other, in one order on all ranks. */
#pragma omp for ordered schedule(static, 1)
            for (int i = 0; i < threads; i++)
#pragma omp ordered
                MPI_Sendrecv(&own, 1, MPI_UINT64_T, (rank + 1) % size, i, &came[me], 1, MPI_UINT64_T,
                             (rank + size - 1) % size, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            own ^= came[me];
            /* Another thread in each step, while the others compute. */
            if (me == step % threads) {
                uint64_t mine = step;
                MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
                total += mine;
            }
            for (int i = 0; i < 3000; i++)
                own = own * 6364136223846793005u + me + i;
            if (logs)
                keep_log(rank, me, step, own);
            sums[me] = own;
#pragma omp barrier
            /* The first thread that arrives. */
#pragma omp single
            {
                double sum = 0, all;
                for (int i = 0; i < CELLS; i++)
                    sum += field[i];
                MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
                for (int i = 0; i < threads; i++)
                    total = total * 31 + (sums[i] >> 8);
                MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
                if (rank == 0 && step % 5 == 0) {
                    printf("step %d: %.17g %016llx\n", step, all, (unsigned long long)total);
                    fflush(stdout);
                }
            }
        }
    }
    if (signals && !ticks)
        abort();
    if (rank == 1 && argc > 3 && !logs && !signals)
        end(!strcmp(argv[3], "exit"));
    if (logs) {
        uint64_t sum = sum_of_logs(rank, threads);
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0)
            printf("logs: %016llx\n", (unsigned long long)sum);
    }
    MPI_Finalize();
    return 0;
}
