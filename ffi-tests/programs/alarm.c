/*
 * Timers that start threads, and one that signals a thread, beside collectives.
 *
 *     alarm [rounds [pause in milliseconds [orphan | seldom]]]
 *
 * One timer that starts threads and the one that signals expire repeatedly; some
 * timers expire once in every round. The program waits for each timer, so that a
 * lost timer blocks the program. With `orphan`, the thread that is to be
 * signalled exits. With `seldom`, there are only timers that expire once, and
 * none is active during collectives.
 */
#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

enum { ONCE = 3 };
static atomic_int beats, once[ONCE], signals, ends;
static int is_orphan, is_seldom;

static void beat(union sigval value)
{
    beats += value.sival_int;
}

static void ring(union sigval value)
{
    /* The thread has its own memory. */
    char *text = malloc(100 + value.sival_int);
    sprintf(text, "%d", value.sival_int);
    once[atoi(text)]++;
    free(text);
}

static timer_t make(void (*function)(union sigval), int value, long first, long again)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = function, .sigev_value.sival_int = value};
    struct itimerspec time = {{0, again}, {0, first}};
    timer_t timer;
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    MUST(timer_settime(timer, 0, &time, NULL) == 0);
    return timer;
}

/* Main function of the thread that its own timer signals. */
static void *listen(void *argument)
{
    sigset_t set;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR2};
    struct itimerspec rhythm = {{0, 3000000}, {0, 3000000}};
    timer_t timer;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    event._sigev_un._tid = gettid();
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    MUST(timer_settime(timer, 0, &rhythm, NULL) == 0);
    while (!ends && !is_orphan)
        if (sigwaitinfo(&set, NULL) == SIGUSR2)
            signals++;
    if (!is_orphan)
        timer_delete(timer);
    return argument;
}

static void content(void)
{
    timer_t timers[ONCE];
    for (int i = 0; i < ONCE; i++) {
        once[i] = 0;
        timers[i] = make(ring, i, 1000000 + 2000000 * i, 0);
    }
    int heard = signals, beaten = beats;
    for (int i = 0; i < 5 && !is_seldom; i++)
        meet();
    while (!once[0] || !once[1] || !once[2])
        usleep(500);
    while (!is_seldom && (beats == beaten || (signals == heard && !is_orphan)))
        usleep(500);
    for (int i = 0; i < ONCE; i++)
        CHECK(timer_delete(timers[i]) == 0);
    for (int i = 0; i < 5 && is_seldom; i++)
        meet();
}

int main(int argc, char **argv)
{
    pthread_t thread;
    MPI_Init(&argc, &argv);
    is_orphan = argc > 3 && !strcmp(argv[3], "orphan");
    is_seldom = argc > 3 && !strcmp(argv[3], "seldom");
    if (!is_seldom) {
        make(beat, 1, 4000000, 4000000);
        pthread_create(&thread, NULL, listen, NULL);
    }
    run_rounds(argc, argv, content);
    ends = 1;
    if (!is_seldom)
        pthread_join(thread, NULL);
    MPI_Finalize();
    return 0;
}
