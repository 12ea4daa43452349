/*
 * A timer that starts a thread each time, beside some collectives.
 */
#include "check.h"
#include <signal.h>
#include <time.h>

static volatile int calls;

static void ring(union sigval value)
{
    calls = value.sival_int;
}

int main(int argc, char **argv)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = ring, .sigev_value.sival_int = 1};
    struct itimerspec rhythm = {{0, 10000000}, {0, 10000000}};
    timer_t timer;

    MPI_Init(&argc, &argv);
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    CHECK(timer_settime(timer, 0, &rhythm, NULL) == 0);
    while (!calls)
        usleep(1000);
    run_rounds(argc, argv, meet);
    MPI_Finalize();
    return 0;
}
