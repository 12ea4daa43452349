/* A pool of threads that compute while the main thread is in MPI.
 *
 *   pool STEPS THREADS WORK [files|deaf]
 *
 * Each thread has thread-local data, uses a recursive mutex, allocates memory, and
 * contributes to the result. With "files" a thread makes files; with "deaf" a
 * thread blocks a signal by a system call of its own, unnoticed by libc. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST = 64 };
static int threads, work, rank;
static const char *what = "";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, recursive;
static pthread_cond_t begin = PTHREAD_COND_INITIALIZER, end = PTHREAD_COND_INITIALIZER;
static int step, ended;
static uint64_t part[MOST], shared;
static __thread uint64_t state;
static __thread char *text;

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    return (z ^ (z >> 27)) * 0x94d049bb133111ebu;
}

static void *run(void *argument)
{
    int own = (int)(intptr_t)argument;
    state = mix(own + 100u * rank);
    uint64_t signal = 1ul << (33 - 1);
    if (own == 0 && !strcmp(what, "deaf"))
        syscall(SYS_rt_sigprocmask, 0, &signal, NULL, sizeof signal);
    for (int mine = 1;; mine++) {
        pthread_mutex_lock(&lock);
        while (step < mine)
            pthread_cond_wait(&begin, &lock);
        int last = step == INT32_MAX;
        pthread_mutex_unlock(&lock);
        if (last)
            return text;
        double sum = 0;
        if (own == 0 && !strcmp(what, "files")) {
            char name[40];
            sprintf(name, "of-threads.%d", rank);
            FILE *file = fopen(name, "a");
            fprintf(file, "%d\n", mine);
            fclose(file);
        }
        for (int i = 0; i < work; i++) {
            state = mix(state + i);
            sum += 1.0 / (1.0 + state % 1000);
        }
        free(text);
        text = malloc(20 + state % 2000);
        sprintf(text, "%016llx", (unsigned long long)state);
        pthread_mutex_lock(&recursive);
        pthread_mutex_lock(&recursive);
        shared += mix(state);
        pthread_mutex_unlock(&recursive);
        part[own] = strtoull(text, NULL, 16) + (uint64_t)(sum * 1e6);
        pthread_mutex_unlock(&recursive);
        pthread_mutex_lock(&lock);
        if (++ended == threads)
            pthread_cond_signal(&end);
        pthread_mutex_unlock(&lock);
    }
}

int main(int argc, char **argv)
{
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int steps = argc > 1 ? atoi(argv[1]) : 100;
    threads = argc > 2 ? atoi(argv[2]) : 4;
    work = argc > 3 ? atoi(argv[3]) : 20000;
    what = argc > 4 ? argv[4] : "";
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &kind);
    pthread_t pool[MOST];
    for (int i = 0; i < threads; i++)
        pthread_create(&pool[i], NULL, run, (void *)(intptr_t)i);
    uint64_t total = rank;
    for (int now = 1; now <= steps; now++) {
        /* The main thread holds a lock over the collectives. */
        pthread_mutex_lock(&recursive);
        pthread_mutex_lock(&lock);
        step = now;
        ended = 0;
        pthread_cond_broadcast(&begin);
        pthread_mutex_unlock(&lock);
        uint64_t all;
        MPI_Allreduce(&total, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        pthread_mutex_unlock(&recursive);
        pthread_mutex_lock(&lock);
        while (ended < threads)
            pthread_cond_wait(&end, &lock);
        pthread_mutex_unlock(&lock);
        total = mix(all + shared);
        for (int i = 0; i < threads; i++)
            total += mix(part[i] ^ total);
        if (rank == 0 && now % 5 == 0) {
            printf("step %d: %016llx\n", now, (unsigned long long)total);
            fflush(stdout);
        }
    }
    pthread_mutex_lock(&lock);
    step = INT32_MAX;
    pthread_cond_broadcast(&begin);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < threads; i++) {
        void *result;
        pthread_join(pool[i], &result);
        total ^= strtoull(result, NULL, 16) * (i + 1);
        free(result);
    }
    uint64_t all;
    MPI_Allreduce(&total, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("all: %016llx\n", (unsigned long long)all);
    MPI_Finalize();
    return 0;
}
