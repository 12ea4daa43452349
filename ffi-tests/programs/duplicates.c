// duplicates STEPS: counters, a timer, a signal descriptor and pipes with several descriptors each, some of which come and go; one pipe
// holds more than 64 KiB. What is read is printed.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { LONG = 200000, PART = 7001 };

static void check(int holds)
{
    if (!holds)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

static sigset_t only(int signal)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    return set;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, steps = argc > 1 ? atoi(argv[1]) : 40, small[2], large[2];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    sigset_t both = only(SIGUSR2), usr2 = both, winch = only(SIGWINCH);
    sigaddset(&both, SIGWINCH);
    static char bytes[LONG];
    for (int i = 0; i < LONG; i++)
        bytes[i] = (char)(i * 7 + i / 251 + rank);
    int counter = eventfd(0, EFD_NONBLOCK), same = dup(counter), timer = timerfd_create(CLOCK_MONOTONIC, 0);
    int signals = signalfd(-1, &usr2, SFD_NONBLOCK);
    check(sigprocmask(SIG_BLOCK, &both, NULL) == 0 && pipe2(small, O_NONBLOCK) == 0 && pipe2(large, O_NONBLOCK) == 0);
    check(counter >= 0 && same >= 0 && timer >= 0 && signals >= 0 && fcntl(large[0], F_SETPIPE_SZ, 1 << 18) >= LONG);
    check(write(small[1], "abcdefgh", 8) == 8 && write(large[1], bytes, LONG) == LONG);
    int reader = dup(small[0]), writer = -1;
    for (int step = 0; step < steps; step++) {
        uint64_t one = 1, count = 0, ticks = 0;
        check(write(step % 2 ? counter : same, &one, sizeof one) == sizeof one);
        if (step % 3 == 2)
            check(read(step % 2 ? same : counter, &count, sizeof count) == sizeof count);
        // A second writing end, by the same description or by another one.
        if (step % 6 == 1)
            writer = step % 12 == 1 ? dup(small[1]) : open("/dev/null", O_WRONLY);
        char letter = (char)('A' + step % 26), got = '-';
        if (step % 6 == 3)
            check(dup2(small[1], writer) == writer);
        check(write(step % 6 == 4 ? writer : small[1], &letter, 1) == 1 && read(step % 2 ? reader : small[0], &got, 1) == 1);
        if (step % 6 == 5)
            check(close(writer) == 0);
        // Rings once, and is waited for some steps later.
        struct itimerspec soon = {.it_value = {0, 10000000}};
        if (step % 7 == 1)
            check(timerfd_settime(timer, 0, &soon, NULL) == 0);
        struct pollfd wait = {timer, POLLIN, 0};
        if (step % 7 == 5)
            check(poll(&wait, 1, 8000) == 1 && read(timer, &ticks, sizeof ticks) == sizeof ticks);
        struct signalfd_siginfo about = {0};
        if (step % 5 == 1)
            check(signalfd(signals, &winch, 0) == signals);
        check(raise(step % 5 == 3 ? SIGWINCH : SIGUSR2) == 0);
        int has_signal = read(signals, &about, sizeof about) == sizeof about;
        struct timespec now = {0};
        sigtimedwait(&both, NULL, &now);
        if (step % 5 == 4)
            check(signalfd(signals, &usr2, 0) == signals);
        unsigned sum = 0;
        long length = 0;
        if (step > steps / 2 && (length = read(large[0], bytes, PART)) > 0)
            for (long i = 0; i < length; i++)
                sum = sum * 31 + (unsigned char)bytes[i];
        int waits = (fcntl(same, F_GETFL) & O_NONBLOCK) == 0;
        printf("rank %d step %d: %d %d %c %d %d %ld %u\n", rank, step, (int)count, waits, got, (int)ticks, has_signal, length, sum);
        fflush(stdout);
        if (step % 4 == 3)
            check(fcntl(counter, F_SETFL, step % 8 == 3 ? 0 : O_NONBLOCK) == 0);
        MPI_Allreduce(MPI_IN_PLACE, &(int){step}, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
