/*
 * Threads that are cancelled: one that waits in a system call, one that computes and
 * may be cancelled at any place.
 */
#include "../check.h"
#include <pthread.h>

static int cleanups;
static volatile unsigned long turns;

static void clean_up(void *count)
{
    *(int *)count += 1;
}

static void *wait_in_call(void *nothing)
{
    pthread_cleanup_push(clean_up, &cleanups);
    for (;;)
        pause();
    pthread_cleanup_pop(0);
    return nothing;
}

static void *compute(void *nothing)
{
    int before;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
    for (;;)
        turns++;
    return nothing;
}

static void cancel(void *(*start)(void *), void (*meanwhile)(void))
{
    pthread_t thread;
    void *result;
    MUST(pthread_create(&thread, NULL, start, NULL) == 0);
    usleep(1000);
    meanwhile();
    MUST(pthread_cancel(thread) == 0);
    MUST(pthread_join(thread, &result) == 0);
    MUST(result == PTHREAD_CANCELED);
}

static void content(void)
{
    cancel(wait_in_call, meet);
    cancel(compute, meet);
    /* The other ranks wait in MPI for this one. */
    if (rank == round_ % size)
        usleep(5000);
    meet();
    say("cleanups %d", cleanups);
}

MAIN(content)
