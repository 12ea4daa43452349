/*
 * State that the kernel keeps for a process: interval timers of both kinds, resource
 * limits, an alternate signal stack, a name and a nice value, set once at the start.
 */
#include "check.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>

static volatile sig_atomic_t ticks, on_other_stack, beats, value;
static timer_t beating, stopped;
static char other_stack[64 << 10];

static void tick(int signal)
{
    char here;
    (void)signal;
    ticks++;
    /*
     * If the main thread has another signal to handle, the kernel may choose a thread
     * of the MPI library.
     */
    on_other_stack |= &here >= other_stack && &here < other_stack + sizeof other_stack;
}

static void beat(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    beats++;
    value = info->si_value.sival_int;
}

static timer_t make_timer(int number)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = number};
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    return timer;
}

static void timers_run(void)
{
    struct itimerspec time;
    CHECK(timer_gettime(stopped, &time) == 0 && time.it_value.tv_sec + time.it_value.tv_nsec == 0);
    CHECK(timer_gettime(beating, &time) == 0 && time.it_interval.tv_nsec == 7000000);
    beats = value = 0;
    for (int i = 0; i < 1000 && beats == 0; i++)
        usleep(1000);
    CHECK(beats > 0);
    CHECK(value == 4711);
}

static void content(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    CHECK(limit.rlim_cur == 123456789);
    char name[16];
    prctl(PR_GET_NAME, name);
    CHECK(strcmp(name, "named") == 0);
    CHECK(getpriority(PRIO_PROCESS, 0) == 3);
    ticks = on_other_stack = 0;
    for (int i = 0; i < 1000 && !on_other_stack; i++)
        usleep(1000);
    CHECK(ticks > 0);
    CHECK(on_other_stack);
    timers_run();
    meet();
}

int main(int argc, char **argv)
{
    struct rlimit limit;
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_ONSTACK | SA_RESTART};
    struct sigaction beat_action = {.sa_sigaction = beat, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct itimerval timer = {{0, 5000}, {0, 5000}};
    struct itimerspec rhythm = {{0, 7000000}, {0, 7000000}};

    MPI_Init(&argc, &argv);
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = 123456789;
    setrlimit(RLIMIT_FSIZE, &limit);
    prctl(PR_SET_NAME, "named");
    setpriority(PRIO_PROCESS, 0, 3);
    sigaltstack(&stack, NULL);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    sigaction(SIGUSR1, &beat_action, NULL);
    timer_delete(make_timer(0));
    beating = make_timer(4711);
    stopped = make_timer(1);
    timer_settime(beating, 0, &rhythm, NULL);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
