/*
 * Attributes of the process that the program sets during the run: processors,
 * scheduling policy, I/O priority, timer slack, OOM score, filter of core dumps, memory
 * policy, no_new_privs, transparent huge pages.
 */
#define _GNU_SOURCE
#include "../check.h"
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static void set_file(const char *name, const char *value)
{
    FILE *file = fopen(name, "w");
    MUST(file != NULL && fputs(value, file) >= 0 && fclose(file) == 0);
}

static void say_file(const char *name)
{
    char text[64] = "";
    FILE *file = fopen(name, "r");
    MUST(file != NULL && fgets(text, sizeof text, file) != NULL && fclose(file) == 0);
    say("%s %s", name, text);
}

static void set_all(void)
{
    cpu_set_t processors;
    struct sched_param parameter = {0};
    CPU_ZERO(&processors);
    CPU_SET(0, &processors);
    CHECK(sched_setaffinity(0, sizeof processors, &processors) == 0);
    CHECK(sched_setscheduler(0, SCHED_BATCH, &parameter) == 0 && setpriority(PRIO_PROCESS, 0, 3) == 0);
    CHECK(syscall(SYS_ioprio_set, 1, 0, 3 << 13) == 0);
    CHECK(prctl(PR_SET_TIMERSLACK, 77777) == 0);
    set_file("/proc/self/oom_score_adj", "321");
    set_file("/proc/self/coredump_filter", "0x11");
    CHECK(syscall(SYS_set_mempolicy, MPOL_PREFERRED, &(unsigned long){1}, 64) == 0);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
}

static void content(void)
{
    cpu_set_t processors;
    int policy = -1;
    if (round_ == 2)
        set_all();
    meet();
    if (round_ < 2)
        return;
    MUST(sched_getaffinity(0, sizeof processors, &processors) == 0);
    MUST(syscall(SYS_get_mempolicy, &policy, NULL, 0, NULL, 0) == 0);
    say("%d processors, scheduler %d, nice %d", CPU_COUNT(&processors), sched_getscheduler(0), getpriority(PRIO_PROCESS, 0));
    say("I/O priority %ld, memory policy %d", syscall(SYS_ioprio_get, 1, 0), policy);
    meet();
    say("slack %d, no_new_privs %d, huge pages disabled %d", prctl(PR_GET_TIMERSLACK),
        prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
    say_file("/proc/self/oom_score_adj");
    say_file("/proc/self/coredump_filter");
}

MAIN(content)
