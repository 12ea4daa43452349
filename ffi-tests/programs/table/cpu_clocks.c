/*
 * Processor time and resource usage of the process, its children and its main thread:
 * for the program, no value ever decreases. A child of the process has its own values.
 */
#define _GNU_SOURCE
#include "../check.h"
#include <sys/resource.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <time.h>

enum { WORK_MS = 10, FIELDS = 14 };

static const clockid_t clocks[] = {CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, -6, -2};
static const int subjects[] = {RUSAGE_SELF, RUSAGE_THREAD, RUSAGE_CHILDREN};

struct reading {
    long clocks[4];
    clock_t clock;
    struct tms ticks;
    long usage[3][2 + FIELDS];
};

static struct reading last;
static volatile unsigned long sum;

static long nanoseconds(clockid_t clock)
{
    struct timespec time;
    MUST(clock_gettime(clock, &time) == 0);
    return 1000000000 * time.tv_sec + time.tv_nsec;
}

static void work(clockid_t clock)
{
    for (long end = nanoseconds(clock) + 1000000L * WORK_MS; nanoseconds(clock) < end;)
        for (int i = 0; i < 10000; i++)
            sum += i;
}

static void read_usage(int who, long *values)
{
    struct rusage usage;
    MUST(getrusage(who, &usage) == 0);
    values[0] = 1000000 * usage.ru_utime.tv_sec + usage.ru_utime.tv_usec;
    values[1] = 1000000 * usage.ru_stime.tv_sec + usage.ru_stime.tv_usec;
    memcpy(values + 2, &usage.ru_maxrss, FIELDS * sizeof *values);
}

static struct reading read_all(void)
{
    struct reading now;
    for (int i = 0; i < 4; i++)
        now.clocks[i] = nanoseconds(clocks[i]);
    now.clock = clock();
    MUST(now.clock != -1 && times(&now.ticks) != -1);
    for (int i = 0; i < 3; i++)
        read_usage(subjects[i], now.usage[i]);
    return now;
}

static void compare(void)
{
    struct reading now = read_all();
    for (int i = 0; i < 4; i++)
        MUST(now.clocks[i] >= last.clocks[i]);
    MUST(now.clock >= last.clock);
    MUST(now.ticks.tms_utime >= last.ticks.tms_utime && now.ticks.tms_stime >= last.ticks.tms_stime);
    MUST(now.ticks.tms_cutime >= last.ticks.tms_cutime && now.ticks.tms_cstime >= last.ticks.tms_cstime);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 2 + FIELDS; j++)
            MUST(now.usage[i][j] >= last.usage[i][j]);
    last = now;
    /* All results agree. */
    MUST((clock() + 1) * 1000 >= now.clocks[0] && nanoseconds(CLOCK_PROCESS_CPUTIME_ID) >= 1000 * now.clock);
    MUST(now.ticks.tms_utime * 10000 <= now.usage[0][0] && now.ticks.tms_cutime * 10000 <= now.usage[2][0]);
    MUST(nanoseconds(CLOCK_MONOTONIC) > 0 && nanoseconds(CLOCK_REALTIME) > 0);
}

/* A child begins with less than its parent has used, and with no children. */
static void run_child(void)
{
    int status;
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        long usage[2 + FIELDS];
        int fresh = nanoseconds(CLOCK_PROCESS_CPUTIME_ID) < last.clocks[0] && clock() < last.clock;
        read_usage(RUSAGE_CHILDREN, usage);
        work(CLOCK_PROCESS_CPUTIME_ID);
        _exit(fresh && usage[0] == 0 ? 3 : 4);
    }
    MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

static void content(void)
{
    compare();
    work(CLOCK_THREAD_CPUTIME_ID);
    meet();
    compare();
    if (round_ % 3 == 0)
        run_child();
    compare();
    meet();
    compare();
    /* The usage of all rounds so far. */
    CHECK(last.clocks[0] >= 1000000L * WORK_MS * (round_ + 1));
    CHECK(last.clocks[1] >= 1000000L * WORK_MS * (round_ + 1));
    CHECK(last.usage[1][0] + last.usage[1][1] >= 900L * WORK_MS * (round_ + 1));
    CHECK(last.usage[2][0] + last.usage[2][1] >= 900L * WORK_MS * (round_ / 3 + 1));
    CHECK(last.usage[0][2] >= 100000);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    /* The peak of memory, which the rounds do not reach again. */
    char *large = malloc(100 << 20);
    memset(large, 1, 100 << 20);
    sum += large[rank];
    free(large);
    last = read_all();
    work(CLOCK_PROCESS_CPUTIME_ID);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
