/*
 * Locks that record their owner, held over calls in which the program's state is saved.
 *
 * Each of them is unlocked and locked again once per round. glibc identifies the owner
 * by a thread number, which is different in another process.
 */
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>

enum { RECURSIVE, ERRORCHECK, ROBUST, ROBUST_ERRORCHECK, INHERIT, INHERIT_ROBUST_RECURSIVE, KINDS };

static const struct {
    int type, robust, protocol;
} kinds[KINDS] = {
    [RECURSIVE] = {PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE},
    [ERRORCHECK] = {PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE},
    [ROBUST] = {PTHREAD_MUTEX_DEFAULT, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE},
    [ROBUST_ERRORCHECK] = {PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE},
    [INHERIT] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_INHERIT},
    [INHERIT_ROBUST_RECURSIVE] = {PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_INHERIT},
};

#define DISGUISE 0x5a5a5a5a

static pthread_mutex_t *heap[KINDS];
static pthread_rwlock_t writer = PTHREAD_RWLOCK_INITIALIZER;
static __thread pthread_mutex_t local = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t *on_stack;
/* The thread number as ordinary data, which understudy must not take for the owner of a
 * lock: alone, and beside small numbers as in a lock. */
static int number, among[10], disguised;

static int is_recursive(int kind)
{
    return kinds[kind].type == PTHREAD_MUTEX_RECURSIVE;
}

static void lock_all(void)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int times = 0; times <= is_recursive(kind); times++)
            CHECK(pthread_mutex_lock(heap[kind]) == 0);
    CHECK(pthread_rwlock_wrlock(&writer) == 0);
    CHECK(pthread_mutex_lock(&local) == 0);
    CHECK(pthread_mutex_lock(on_stack) == 0);
}

static void unlock_all(void)
{
    for (int kind = 0; kind < KINDS; kind++) {
        if (kinds[kind].type == PTHREAD_MUTEX_ERRORCHECK)
            CHECK(pthread_mutex_lock(heap[kind]) == EDEADLK);
        for (int times = 0; times <= is_recursive(kind); times++)
            CHECK(pthread_mutex_unlock(heap[kind]) == 0);
    }
    CHECK(pthread_rwlock_wrlock(&writer) == EDEADLK);
    CHECK(pthread_rwlock_unlock(&writer) == 0);
    CHECK(pthread_mutex_unlock(&local) == 0);
    CHECK(pthread_mutex_unlock(on_stack) == 0);
}

/* Number of robust mutexes that the kernel would find if this thread exited. */
static int listed(void)
{
    struct robust_list_head *head;
    size_t length;
    int count = 0;
    syscall(SYS_get_robust_list, 0, &head, &length);
    for (uintptr_t at = (uintptr_t)head->list.next; (at & ~1ul) != (uintptr_t)&head->list && count < 100; count++)
        at = (uintptr_t)((struct robust_list *)(at & ~1ul))->next;
    return count;
}

static void content(void)
{
    CHECK(listed() == 3);
    unlock_all();
    CHECK(listed() == 0);
    meet();
    lock_all();
    meet();
    CHECK(number == (disguised ^ DISGUISE));
    for (int i = 0; i < 10; i++)
        CHECK(among[i] == (i == 2 ? (disguised ^ DISGUISE) : i == 4 ? 1 : i == 9 ? 7 : i == 0 || i == 3));
}

int main(int argc, char **argv)
{
    pthread_mutex_t here;
    pthread_mutexattr_t attributes;

    MPI_Init(&argc, &argv);
    for (int kind = 0; kind < KINDS; kind++) {
        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_settype(&attributes, kinds[kind].type);
        pthread_mutexattr_setrobust(&attributes, kinds[kind].robust);
        pthread_mutexattr_setprotocol(&attributes, kinds[kind].protocol);
        heap[kind] = malloc(sizeof *heap[kind]);
        pthread_mutex_init(heap[kind], &attributes);
    }
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&here, &attributes);
    on_stack = &here;
    number = getpid();
    disguised = number ^ DISGUISE;
    among[0] = among[3] = among[4] = 1;
    among[2] = number;
    among[9] = 7;
    lock_all();
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
