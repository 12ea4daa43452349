/*
 * Signals with values are pending for the process and for its main thread: each as
 * often as it was sent, in order, with its value.
 */
#define _GNU_SOURCE
#include "../check.h"
#include <pthread.h>
#include <signal.h>

static sigset_t blocked;

static void report(const char *what)
{
    const struct timespec at_once = {0, 0};
    siginfo_t told;
    for (int signal; (signal = sigtimedwait(&blocked, &told, &at_once)) > 0;)
        say("%s: signal %d, value %d", what, signal, told.si_value.sival_int);
}

static void *take_of_process(void *nothing)
{
    report("of the process");
    return nothing;
}

static void content(void)
{
    for (int i = 0; i < 3; i++) {
        union sigval value = {.sival_int = 100 * round_ + i};
        MUST(sigqueue(getpid(), SIGRTMIN + 2, value) == 0);
        value.sival_int += 50;
        MUST(pthread_sigqueue(pthread_self(), SIGRTMIN + 2 + i % 2, value) == 0);
    }
    MUST(pthread_kill(pthread_self(), SIGUSR1) == 0);
    meet();
    pthread_t other;
    MUST(pthread_create(&other, NULL, take_of_process, NULL) == 0);
    MUST(pthread_join(other, NULL) == 0);
    report("of the thread");
}

int main(int argc, char **argv)
{
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigaddset(&blocked, SIGRTMIN + 2);
    sigaddset(&blocked, SIGRTMIN + 3);
    MUST(sigprocmask(SIG_BLOCK, &blocked, NULL) == 0);
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
