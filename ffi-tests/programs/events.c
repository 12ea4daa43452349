// events STEPS: an event loop in each process: a counter, a timer, a signal and a
// pipe to itself, in a set. Counter and pipe are never empty between two steps.
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

static void check(int holds)
{
    if (!holds)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    enum { COUNTER, TIMER, SIGNAL, PIPE, KINDS };
    MPI_Init(&argc, &argv);
    int rank, steps = argc > 1 ? atoi(argv[1]) : 100, ends[2];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    check(sigprocmask(SIG_BLOCK, &mask, NULL) == 0 && pipe(ends) == 0 && write(ends[1], "ab", 2) == 2);
    int all[KINDS] = {eventfd(7, 0), timerfd_create(CLOCK_MONOTONIC, 0), signalfd(-1, &mask, 0), ends[0]}, set = epoll_create1(0);
    struct itimerspec every = {{0, 2000000}, {0, 2000000}};
    check(timerfd_settime(all[TIMER], 0, &every, NULL) == 0);
    for (uint32_t i = 0; i < KINDS; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
        check(epoll_ctl(set, EPOLL_CTL_ADD, all[i], &event) == 0);
    }
    for (int step = 0; step < steps; step++) {
        check(raise(SIGUSR2) == 0);
        long sum = step;
        for (int seen = 0; seen != (1 << KINDS) - 1;) {
            struct epoll_event event;
            check(epoll_wait(set, &event, 1, 5000) == 1);
            if (seen & 1 << event.data.u32)
                continue;
            seen |= 1 << event.data.u32;
            uint64_t count = 1;
            struct signalfd_siginfo about;
            char letter;
            switch (event.data.u32) {
            case COUNTER:
                check(read(all[COUNTER], &count, sizeof count) == sizeof count);
                sum += (long)count * 3;
                count = (count + (uint64_t)step) % 11 + 1;
                check(write(all[COUNTER], &count, sizeof count) == sizeof count);
                break;
            case TIMER:
                check(read(all[TIMER], &count, sizeof count) == sizeof count);
                break;
            case SIGNAL:
                check(read(all[SIGNAL], &about, sizeof about) == sizeof about && about.ssi_signo == SIGUSR2);
                break;
            case PIPE:
                check(read(ends[0], &letter, 1) == 1);
                sum += letter;
                letter = (char)('a' + (letter + step) % 26);
                check(write(ends[1], &letter, 1) == 1);
                break;
            }
        }
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0) {
            printf("step %d: %ld\n", step, sum);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
