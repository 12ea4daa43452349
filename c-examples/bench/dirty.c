/*
 * dirty: a program that writes a known share of its pages in every iteration.
 *
 *   mpirun -n 2 dirty STATIC_MIB DYNAMIC_MIB PERCENT ITERATIONS CALLS [option]
 *
 * Each rank fills STATIC_MIB once, and in every iteration writes each page of
 * DYNAMIC_MIB whose number modulo 100 is less than PERCENT.  An iteration makes
 * CALLS collectives over all ranks: CALLS - 2 Allreduces with a little computation
 * between them, then the writing, a Barrier, and an Allreduce which is timed.
 *
 *   --plain           instead of the above, times in every iteration a copy of
 *                     the written pages, and an exchange of as many bytes
 *   --progress FILE   append a line to FILE after every iteration: rank,
 *                     process, iteration, CLOCK_MONOTONIC in nanoseconds.
 *                     FILE is open only while it is written.
 *   --sleeping N      N threads wait for a condition meanwhile
 *   --computing N     N threads compute meanwhile
 *
 * Rank 0 prints the times of every iteration in seconds: `iteration n write x
 * allreduce y`, with --plain `iteration n write x copy y exchange z`.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <mpi.h>

enum { PAGE = 4096, TAG = 1 };

typedef struct {
    size_t static_bytes, dynamic_bytes;
    int percent, iterations, calls, plain, sleeping, computing;
    const char *progress;
} options;

static int parse(int argc, char **argv, options *o)
{
    if (argc < 6)
        return 0;
    o->static_bytes = strtoul(argv[1], NULL, 10) << 20;
    o->dynamic_bytes = strtoul(argv[2], NULL, 10) << 20;
    o->percent = atoi(argv[3]);
    o->iterations = atoi(argv[4]);
    o->calls = atoi(argv[5]);
    for (int i = 6; i < argc; i++) {
        if (strcmp(argv[i], "--plain") == 0)
            o->plain = 1;
        else if (strcmp(argv[i], "--progress") == 0 && i + 1 < argc)
            o->progress = argv[++i];
        else if (strcmp(argv[i], "--sleeping") == 0 && i + 1 < argc)
            o->sleeping = atoi(argv[++i]);
        else if (strcmp(argv[i], "--computing") == 0 && i + 1 < argc)
            o->computing = atoi(argv[++i]);
        else
            return 0;
    }
    return o->dynamic_bytes > 0 && o->percent > 0 && o->percent <= 100 && o->iterations > 0 && o->calls >= 2;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

static void *run(void *computes)
{
    volatile double x = 1.0;
    while (computes != NULL)
        x = x * 1.000001 + 1e-9;
    pthread_mutex_lock(&lock);
    for (;;)
        pthread_cond_wait(&never, &lock);
    return NULL;
}

/* The threads end with the process. */
static void start_threads(int count, int compute)
{
    pthread_t thread;
    for (int i = 0; i < count; i++)
        if (pthread_create(&thread, NULL, run, (void *)(intptr_t)compute) != 0) {
            fprintf(stderr, "dirty: no thread\n");
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
}

static double *allocate(size_t bytes)
{
    double *data = malloc(bytes > 0 ? bytes : 1);
    if (data == NULL) {
        fprintf(stderr, "dirty: no memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (size_t i = 0; i < bytes / sizeof *data; i++)
        data[i] = (double)i;
    return data;
}

/* Writes every double of the chosen pages; returns the number of bytes. */
static size_t write_pages(char *data, const options *o)
{
    size_t written = 0;
    for (size_t page = 0; page < o->dynamic_bytes / PAGE; page++) {
        if ((int)(page % 100) >= o->percent)
            continue;
        double *at = (double *)(data + page * PAGE);
        for (size_t i = 0; i < PAGE / sizeof *at; i++)
            at[i] += 1.0;
        written += PAGE;
    }
    return written;
}

/* Copies the chosen pages, in consecutive runs. */
static void copy_pages(char *to, const char *from, const options *o)
{
    size_t pages = o->dynamic_bytes / PAGE;
    for (size_t page = 0; page < pages; page += 100) {
        size_t run = pages - page < (size_t)o->percent ? pages - page : (size_t)o->percent;
        memcpy(to, from + page * PAGE, run * PAGE);
        to += run * PAGE;
    }
}

static volatile double sink;

static void compute(void)
{
    double x = 1.0;
    for (int i = 0; i < 5000; i++)
        x = x * 1.000001 + 1e-9;
    sink = x;
}

static void report(const options *o, int rank, int iteration)
{
    char line[128];
    struct timespec now;
    if (o->progress == NULL)
        return;
    int fd = open(o->progress, O_WRONLY | O_APPEND | O_CREAT, 0644);
    clock_gettime(CLOCK_MONOTONIC, &now);
    int length = snprintf(line, sizeof line, "%d %ld %d %lld\n", rank, (long)getpid(), iteration,
                          (long long)now.tv_sec * 1000000000 + now.tv_nsec);
    if (fd < 0 || write(fd, line, (size_t)length) != length)
        fprintf(stderr, "dirty: cannot write %s\n", o->progress);
    if (fd >= 0)
        close(fd);
}

static void plain(const options *o, char *data, int rank, int size)
{
    size_t most = o->dynamic_bytes;
    /*
     * Two copies in turn: a program that keeps the last copy until the next one is
     * complete has two.
     */
    char *copies[2] = {(char *)allocate(most), (char *)allocate(most)};
    char *partner = (char *)allocate(most);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;

    for (int n = 0; n < o->iterations; n++) {
        char *copy = copies[n % 2];
        double start = MPI_Wtime();
        size_t bytes = write_pages(data, o);
        double written = MPI_Wtime();
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        copy_pages(copy, data, o);
        double copied = MPI_Wtime();
        MPI_Sendrecv(copy, (int)bytes, MPI_BYTE, to, TAG, partner, (int)bytes, MPI_BYTE, from, TAG,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        double end = MPI_Wtime();
        if (rank == 0)
            printf("iteration %d write %.9f copy %.9f exchange %.9f\n", n, written - start, copied - begin,
                   end - copied);
    }
    free(copies[0]);
    free(copies[1]);
    free(partner);
}

static void iterate(const options *o, char *data, int rank)
{
    for (int n = 0; n < o->iterations; n++) {
        double one = 1.0, sum;
        for (int call = 0; call < o->calls - 2; call++) {
            compute();
            MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        }
        double start = MPI_Wtime();
        write_pages(data, o);
        double written = MPI_Wtime();
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        double end = MPI_Wtime();
        report(o, rank, n);
        if (rank == 0)
            printf("iteration %d write %.9f allreduce %.9f\n", n, written - start, end - begin);
    }
}

int main(int argc, char **argv)
{
    options o = {0};
    int rank, size, level;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!parse(argc, argv, &o)) {
        if (rank == 0)
            fprintf(stderr, "usage: dirty STATIC_MIB DYNAMIC_MIB PERCENT ITERATIONS CALLS [--plain] [--progress FILE]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    double *fixed = allocate(o.static_bytes), *data = allocate(o.dynamic_bytes);
    start_threads(o.sleeping, 0);
    start_threads(o.computing, 1);
    if (o.plain)
        plain(&o, (char *)data, rank, size);
    else
        iterate(&o, (char *)data, rank);
    free(fixed);
    free(data);
    MPI_Finalize();
    return 0;
}
