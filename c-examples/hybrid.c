/*
 * Diffusion on a plate with MPI and OpenMP: each process has some rows, of which
 * each of its threads relaxes a part.
 *
 *   hybrid NX NY ITERATIONS [--threads T] [--multiple] [--print-every K]
 *
 *   --threads T       threads of each process (default: 2)
 *   --multiple        the threads at both ends of a process's rows exchange them
 *                     with its neighbours concurrently (MPI_THREAD_MULTIPLE);
 *                     without it the main thread does (MPI_THREAD_FUNNELED)
 *   --print-every K   print the change every K iterations (default: 10)
 *
 * The output depends neither on the number of processes nor on that of threads,
 * except for the last digit of sums of the processes' parts, which MPI adds up.
 */
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UPWARDS = 1, DOWNWARDS = 2 };

typedef struct {
    int nx, ny, iterations, threads, is_multiple, print_every;
} options;

typedef struct {
    int rows, first, up, down;
    /* With an additional row above and below. */
    double *now, *next, *change;
} part;

static void usage(void)
{
    fprintf(stderr, "usage: hybrid NX NY ITERATIONS [--threads T] [--multiple] [--print-every K]\n");
    exit(2);
}

static options parse(int argc, char **argv)
{
    options o = {0, 0, 0, 2, 0, 10};
    int *values[] = {&o.nx, &o.ny, &o.iterations}, count = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--multiple"))
            o.is_multiple = 1;
        else if (!strcmp(argv[i], "--threads") && i + 1 < argc)
            o.threads = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--print-every") && i + 1 < argc)
            o.print_every = atoi(argv[++i]);
        else if (count < 3)
            *values[count++] = atoi(argv[i]);
        else
            usage();
    }
    if (count < 3 || o.nx < 3 || o.ny < 1 || o.iterations < 0 || o.threads < 1 || o.print_every < 1)
        usage();
    return o;
}

static double *row(double *field, const options *o, int r)
{
    return field + (size_t)(r + 1) * (size_t)o->nx;
}

static void set_up(part *p, const options *o, int rank, int size)
{
    p->first = (int)((long)o->ny * rank / size);
    p->rows = (int)((long)o->ny * (rank + 1) / size) - p->first;
    p->up = rank == 0 ? MPI_PROC_NULL : rank - 1;
    p->down = rank == size - 1 ? MPI_PROC_NULL : rank + 1;
    size_t cells = (size_t)(p->rows + 2) * (size_t)o->nx;
    p->now = calloc(cells, sizeof *p->now);
    p->next = calloc(cells, sizeof *p->next);
    p->change = calloc((size_t)p->rows + 1, sizeof *p->change);
    if (!p->now || !p->next || !p->change || p->rows < 1) {
        fprintf(stderr, "hybrid: no memory, or more processes than rows\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int r = -1; r <= p->rows; r++)
        for (int c = 0; c < o->nx; c++)
            row(p->now, o, r)[c] = row(p->next, o, r)[c] = (double)((p->first + r + 1) * 7 % 13 + c % 5);
}

static void exchange_upwards(part *p, const options *o)
{
    MPI_Sendrecv(row(p->now, o, 0), o->nx, MPI_DOUBLE, p->up, UPWARDS, row(p->now, o, -1), o->nx, MPI_DOUBLE, p->up,
                 DOWNWARDS, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void exchange_downwards(part *p, const options *o)
{
    MPI_Sendrecv(row(p->now, o, p->rows - 1), o->nx, MPI_DOUBLE, p->down, DOWNWARDS, row(p->now, o, p->rows), o->nx,
                 MPI_DOUBLE, p->down, UPWARDS, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Called by all threads; the neighbours' rows have arrived when it returns. */
static void exchange(part *p, const options *o)
{
    int me = omp_get_thread_num(), last = omp_get_num_threads() - 1;
    if (me == 0)
        exchange_upwards(p, o);
    if (me == (o->is_multiple ? last : 0))
        exchange_downwards(p, o);
#pragma omp barrier
}

static void relax(part *p, const options *o)
{
#pragma omp for schedule(static)
    for (int r = 0; r < p->rows; r++) {
        const double *here = row(p->now, o, r), *above = here - o->nx, *below = here + o->nx;
        double *out = row(p->next, o, r), change = 0;
        for (int c = 1; c < o->nx - 1; c++) {
            out[c] = 0.25 * (above[c] + below[c] + here[c - 1] + here[c + 1]);
            change += (out[c] - here[c]) * (out[c] - here[c]);
        }
        p->change[r] = change;
    }
}

/* The rows in order, whichever thread has relaxed them. */
static void end_iteration(part *p, const options *o, int rank, int iteration)
{
    double own = 0, all, *swap = p->now;
    for (int r = 0; r < p->rows; r++)
        own += p->change[r];
    p->now = p->next;
    p->next = swap;
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && iteration % o->print_every == 0) {
        printf("iteration %d: %.15e\n", iteration, all);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    int rank, size, level;
    options o = parse(argc, argv);
    int wanted = o.is_multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED;
    MPI_Init_thread(&argc, &argv, wanted, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (level < wanted) {
        fprintf(stderr, "hybrid: this MPI library does not let so many threads call it\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    part p;
    set_up(&p, &o, rank, size);
#pragma omp parallel num_threads(o.threads)
    for (int i = 1; i <= o.iterations; i++) {
        exchange(&p, &o);
        relax(&p, &o);
#pragma omp master
        end_iteration(&p, &o, rank, i);
#pragma omp barrier
    }
    free(p.now);
    free(p.next);
    free(p.change);
    MPI_Finalize();
    return 0;
}
