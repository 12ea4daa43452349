/*
 * Signals that the program has blocked stay pending for the program. No thread
 * of a library receives such a signal, even if the thread does not block it.
 */
#include "check.h"
#include <signal.h>

static volatile sig_atomic_t handled;

static void handle(int number)
{
    handled += number;
}

static void content(void)
{
    sigset_t blocked, pending, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigaddset(&blocked, SIGUSR2);
    if (round_ == 0)
        signal(SIGUSR2, handle);
    MUST(sigprocmask(SIG_BLOCK, &blocked, &before) == 0);
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR2);
    meet();
    sigpending(&pending);
    CHECK(sigismember(&pending, SIGUSR1) && sigismember(&pending, SIGUSR2));
    sigdelset(&blocked, SIGUSR2);
    siginfo_t told;
    MUST(sigwaitinfo(&blocked, &told) == SIGUSR1);
    MUST(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
    say("handled %d", (int)handled);
}

MAIN(content)
