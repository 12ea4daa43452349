/*
 * Threads that wait for locks while the main thread is in MPI. These locks compare
 * their owner with the caller.
 *
 * The locks are a recursive mutex by pthread_mutex_lock and pthread_mutex_timedlock, a
 * robust and an error-checking one, and a read-write lock. The main thread holds all of
 * them over its collectives, and waits for all threads afterwards.
 */
#include "../check.h"
#include <pthread.h>
#include <time.h>

enum { RECURSIVE, TIMED, ROBUST, CHECKED, WRITTEN, KINDS };

static pthread_mutex_t mutexes[WRITTEN];
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t begin, end;
static unsigned long values[KINDS];
static int errors[KINDS];
static int is_over;

static int take(int kind)
{
    struct timespec deadline = {.tv_sec = 4000000000};
    switch (kind) {
    case TIMED:
        return pthread_mutex_timedlock(&mutexes[kind], &deadline);
    case WRITTEN:
        return pthread_rwlock_wrlock(&rwlock);
    default:
        return pthread_mutex_lock(&mutexes[kind]);
    }
}

static int release(int kind)
{
    return kind == WRITTEN ? pthread_rwlock_unlock(&rwlock) : pthread_mutex_unlock(&mutexes[kind]);
}

static void *wait_for_locks(void *argument)
{
    int kind = (int)(intptr_t)argument;
    for (;;) {
        pthread_barrier_wait(&begin);
        if (is_over)
            return NULL;
        errors[kind] |= take(kind);
        values[kind] = values[kind] * 31 + (unsigned long)(kind + rank);
        /* Twice: a recursive mutex identifies its owner. */
        if (kind <= TIMED)
            errors[kind] |= take(kind) | release(kind);
        errors[kind] |= release(kind);
        pthread_barrier_wait(&end);
    }
}

static void content(void)
{
    for (int kind = 0; kind < KINDS; kind++)
        MUST(take(kind) == 0);
    pthread_barrier_wait(&begin);
    usleep(3000);
    for (int i = 0; i < 6; i++)
        meet();
    for (int kind = 0; kind < KINDS; kind++)
        MUST(release(kind) == 0);
    pthread_barrier_wait(&end);
    for (int kind = 0; kind < KINDS; kind++)
        say("lock %d: errors %d, value %lu", kind, errors[kind], values[kind]);
}

static void make_mutexes(void)
{
    for (int kind = 0; kind < WRITTEN; kind++) {
        pthread_mutexattr_t attributes;
        pthread_mutexattr_init(&attributes);
        if (kind == ROBUST)
            pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
        else
            pthread_mutexattr_settype(&attributes, kind == CHECKED ? PTHREAD_MUTEX_ERRORCHECK : PTHREAD_MUTEX_RECURSIVE);
        pthread_mutex_init(&mutexes[kind], &attributes);
    }
}

int main(int argc, char **argv)
{
    int provided;
    pthread_t threads[KINDS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    make_mutexes();
    pthread_barrier_init(&begin, NULL, KINDS + 1);
    pthread_barrier_init(&end, NULL, KINDS + 1);
    for (int kind = 0; kind < KINDS; kind++)
        pthread_create(&threads[kind], NULL, wait_for_locks, (void *)(intptr_t)kind);
    run_rounds(argc, argv, content);
    is_over = 1;
    pthread_barrier_wait(&begin);
    for (int kind = 0; kind < KINDS; kind++)
        pthread_join(threads[kind], NULL);
    MPI_Finalize();
    return 0;
}
