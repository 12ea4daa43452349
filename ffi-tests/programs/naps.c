/* Threads that sleep in many ways while the main thread is in MPI: naps STEPS. No
 * thread may sleep for a shorter time than requested, or get EINTR. Some threads sleep
 * over several checkpoints. */
#define _GNU_SOURCE
#include <errno.h>
#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

enum { WAYS = 10, KINDS = 2 * WAYS, SHORT_MS = 60, LONG_MS = 350 };
static atomic_int ends, early[KINDS], failed[KINDS], done[KINDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t zero;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static struct timespec deadline(clockid_t clock, int ms)
{
    struct timespec at;
    clock_gettime(clock, &at);
    at.tv_nsec += ms * 1000000L;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

/* Returns 0 if the sleep was correct. */
static int nap(int way, int ms)
{
    struct timespec time = {0, ms * 1000000L}, at;
    struct timeval value = {0, ms * 1000L};
    sigset_t set;
    int result;
    switch (way) {
    case 0: return nanosleep(&time, NULL);
    case 1: return usleep(ms * 1000);
    case 2: return poll(NULL, 0, ms);
    case 3: return ppoll(NULL, 0, &time, NULL);
    case 4: return select(0, NULL, NULL, NULL, &value);
    case 5:
        at = deadline(CLOCK_REALTIME, ms);
        pthread_mutex_lock(&lock);
        result = pthread_cond_timedwait(&never, &lock, &at);
        pthread_mutex_unlock(&lock);
        return result != ETIMEDOUT;
    case 6:
        at = deadline(CLOCK_REALTIME, ms);
        return !(sem_timedwait(&zero, &at) == -1 && errno == ETIMEDOUT);
    case 7: return clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
    case 8:
        at = deadline(CLOCK_MONOTONIC, ms);
        return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    default:
        sigemptyset(&set);
        sigaddset(&set, SIGUSR2);
        return !(sigtimedwait(&set, NULL, &time) == -1 && errno == EAGAIN);
    }
}

static void *run(void *argument)
{
    int kind = (int)(intptr_t)argument, ms = kind < WAYS ? SHORT_MS : LONG_MS;
    while (!ends) {
        double begin = now();
        if (nap(kind % WAYS, ms))
            failed[kind]++;
        /*
         * A sleep that is too long is no error, since a rollback or a replacement may
         * delay its end. Up to 2 ms may be missing, since the kernel counts in
         * milliseconds.
         */
        else if (now() - begin < ms * 1e-3 - 0.002)
            early[kind]++;
        done[kind]++;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int level, rank, steps = argc > 1 ? atoi(argv[1]) : 100;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    pthread_t threads[KINDS];
    sem_init(&zero, 0, 0);
    for (int i = 0; i < KINDS; i++)
        pthread_create(&threads[i], NULL, run, (void *)(intptr_t)i);
    uint64_t total = rank;
    for (int step = 1; step <= steps; step++) {
        struct timespec pause = {0, 7000000};
        nanosleep(&pause, NULL);
        MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        total = total * 31 + rank;
        if (rank == 0 && step % 5 == 0) {
            printf("step %d: %016llx\n", step, (unsigned long long)total);
            fflush(stdout);
        }
    }
    ends = 1;
    int bad[2 * KINDS + 1] = {0}, slept = 1;
    for (int i = 0; i < KINDS; i++) {
        pthread_join(threads[i], NULL);
        bad[i] = early[i];
        bad[KINDS + i] = failed[i];
        slept &= done[i] > 0;
    }
    bad[2 * KINDS] = !slept;
    MPI_Allreduce(MPI_IN_PLACE, bad, 2 * KINDS + 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i <= 2 * KINDS && rank == 0; i++)
        printf("%d%s", bad[i], i < 2 * KINDS ? " " : "\n");
    MPI_Finalize();
    return 0;
}
