/*
 * Counters, a timer, a signal descriptor and pipes with several descriptors each, some
 * of which are opened and closed; one pipe contains more than 64 KiB.
 */
#define _GNU_SOURCE
#include "../check.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

enum { LONG = 200000, PART = 7001 };

static int counter, same, timer, signals, small[2], large[2], reader, writer = -1;
static sigset_t both, usr2, winch;

static sigset_t only(int signal)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    return set;
}

static void count(void)
{
    uint64_t one = 1, sum = 0;
    MUST(write(round_ % 2 ? counter : same, &one, sizeof one) == sizeof one);
    if (round_ % 3 == 2)
        MUST(read(round_ % 2 ? same : counter, &sum, sizeof sum) == sizeof sum);
    say("counter %d, waits %d", (int)sum, (fcntl(same, F_GETFL) & O_NONBLOCK) == 0);
}

/* A second descriptor for writing is a duplicate of the first one, or opens /dev/null and
 * becomes the duplicate two rounds later. */
static void send_letter(void)
{
    char letter = (char)('A' + round_ % 26), got = '-';
    if (round_ % 6 == 1)
        writer = round_ % 12 == 1 ? dup(small[1]) : open("/dev/null", O_WRONLY);
    if (round_ % 6 == 3)
        MUST(dup2(small[1], writer) == writer);
    MUST(write(round_ % 6 == 4 ? writer : small[1], &letter, 1) == 1);
    MUST(read(round_ % 2 ? reader : small[0], &got, 1) == 1);
    if (round_ % 6 == 5)
        MUST(close(writer) == 0);
    say("pipe: %c", got);
}

/* A timer that expires once, and is waited for some rounds later. */
static void ring(void)
{
    struct itimerspec soon = {.it_value = {0, 10000000}};
    struct pollfd wait = {timer, POLLIN, 0};
    uint64_t ticks = 0;
    if (round_ % 7 == 1)
        MUST(timerfd_settime(timer, 0, &soon, NULL) == 0);
    if (round_ % 7 == 5)
        MUST(poll(&wait, 1, 8000) == 1 && read(timer, &ticks, sizeof ticks) == sizeof ticks);
    say("timer: %d", (int)ticks);
}

static void raise_signal(void)
{
    struct signalfd_siginfo about = {0};
    struct timespec now = {0};
    if (round_ % 5 == 1)
        MUST(signalfd(signals, &winch, 0) == signals);
    MUST(raise(round_ % 5 == 3 ? SIGWINCH : SIGUSR2) == 0);
    say("signal: %d", read(signals, &about, sizeof about) == sizeof about);
    sigtimedwait(&both, NULL, &now);
    if (round_ % 5 == 4)
        MUST(signalfd(signals, &usr2, 0) == signals);
}

static void read_part(void)
{
    char bytes[PART];
    unsigned sum = 0;
    ssize_t length = read(large[0], bytes, PART);
    for (ssize_t i = 0; i < length; i++)
        sum = sum * 31 + (unsigned char)bytes[i];
    say("large pipe: %zd bytes, sum %u", length, sum);
}

static void content(void)
{
    count();
    send_letter();
    ring();
    raise_signal();
    if (round_ > rounds / 2)
        read_part();
    if (round_ % 4 == 3)
        MUST(fcntl(counter, F_SETFL, round_ % 8 == 3 ? 0 : O_NONBLOCK) == 0);
    meet();
}

static void open_all(void)
{
    static char bytes[LONG];
    usr2 = only(SIGUSR2);
    winch = only(SIGWINCH);
    both = usr2;
    sigaddset(&both, SIGWINCH);
    MUST(sigprocmask(SIG_BLOCK, &both, NULL) == 0);
    for (int i = 0; i < LONG; i++)
        bytes[i] = (char)(i * 7 + i / 251 + rank);
    counter = eventfd(0, EFD_NONBLOCK);
    same = dup(counter);
    timer = timerfd_create(CLOCK_MONOTONIC, 0);
    signals = signalfd(-1, &usr2, SFD_NONBLOCK);
    MUST(pipe2(small, O_NONBLOCK) == 0 && pipe2(large, O_NONBLOCK) == 0);
    MUST(fcntl(large[0], F_SETPIPE_SZ, 1 << 18) >= LONG);
    MUST(write(small[1], "abcdefgh", 8) == 8 && write(large[1], bytes, LONG) == LONG);
    reader = dup(small[0]);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    open_all();
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
