/*
 * What the kernel keeps for a process: an interval timer, resource limits and
 * an alternate signal stack, set once at the start.
 */
#include "check.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>

static volatile sig_atomic_t ticks, on_other_stack;
static char other_stack[64 << 10];

static void tick(int signal)
{
    char here;
    (void)signal;
    ticks++;
    on_other_stack = &here >= other_stack && &here < other_stack + sizeof other_stack;
}

static void content(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    CHECK(limit.rlim_cur == 123456789);
    ticks = 0;
    for (int i = 0; i < 1000 && ticks == 0; i++)
        usleep(1000);
    CHECK(ticks > 0);
    CHECK(on_other_stack);
    meet();
}

int main(int argc, char **argv)
{
    struct rlimit limit;
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_ONSTACK | SA_RESTART};
    struct itimerval timer = {{0, 5000}, {0, 5000}};

    MPI_Init(&argc, &argv);
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = 123456789;
    setrlimit(RLIMIT_FSIZE, &limit);
    sigaltstack(&stack, NULL);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
