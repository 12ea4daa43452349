/*
 * An event loop in each process: a counter, a timer, a signal and a pipe to itself, in
 * an epoll set.
 *
 * Counter and pipe are never empty between two rounds.
 */
#include "../check.h"
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

enum { COUNTER, TIMER, SIGNAL, PIPE, KINDS };

static int all[KINDS], set, writer;

/* Handles an event: reads the last value and writes a new one. */
static long receive(uint32_t kind)
{
    struct signalfd_siginfo about;
    uint64_t count = 1, next;
    char letter = 0, following;
    switch (kind) {
    case COUNTER:
        MUST(read(all[COUNTER], &count, sizeof count) == sizeof count);
        next = (count + (uint64_t)round_) % 11 + 1;
        MUST(write(all[COUNTER], &next, sizeof next) == sizeof next);
        return (long)count * 3;
    case TIMER:
        MUST(read(all[TIMER], &count, sizeof count) == sizeof count);
        return 0;
    case SIGNAL:
        MUST(read(all[SIGNAL], &about, sizeof about) == sizeof about && about.ssi_signo == SIGUSR2);
        return 0;
    default:
        MUST(read(all[PIPE], &letter, 1) == 1);
        following = (char)('a' + (letter + round_) % 26);
        MUST(write(writer, &following, 1) == 1);
        return letter;
    }
}

static void content(void)
{
    long sum = 0;
    int seen = 0;
    MUST(raise(SIGUSR2) == 0);
    while (seen != (1 << KINDS) - 1) {
        struct epoll_event event;
        if (epoll_wait(set, &event, 1, 5000) != 1)
            MPI_Abort(MPI_COMM_WORLD, 1);
        if (seen & 1 << event.data.u32)
            continue;
        seen |= 1 << event.data.u32;
        sum += receive(event.data.u32);
    }
    say("sum %ld", sum);
    meet();
}

static void open_all(void)
{
    struct itimerspec every = {{0, 2000000}, {0, 2000000}};
    sigset_t mask;
    int ends[2];
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    MUST(sigprocmask(SIG_BLOCK, &mask, NULL) == 0);
    MUST(pipe(ends) == 0 && write(ends[1], "ab", 2) == 2);
    all[COUNTER] = eventfd(7, 0);
    all[TIMER] = timerfd_create(CLOCK_MONOTONIC, 0);
    all[SIGNAL] = signalfd(-1, &mask, 0);
    all[PIPE] = ends[0];
    writer = ends[1];
    set = epoll_create1(0);
    MUST(timerfd_settime(all[TIMER], 0, &every, NULL) == 0);
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = kind};
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, all[kind], &event) == 0);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    open_all();
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
