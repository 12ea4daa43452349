/*
 * argtrig_kept: argtrig, with its own protection against the loss of a process's
 * data.
 *
 *   mpirun -n 4 argtrig_kept WAY N ITERATIONS [OUTPUT] [argtrig's options] [options]
 *
 *   none       begins again
 *   disk       all write x, f and the Jacobian into a file (FILE), and roll back
 *   diskless   two processes keep each other's x, f and Jacobian; all roll back
 *   scheme     keeps only x, which all have anyway, and recomputes the rest from
 *              it; no process rolls back
 *   discard    nothing itself: declares to understudy (understudy.h) that neither
 *              the Jacobian nor the room for parts of it needs a replica
 *
 *   --every C      iterations from one checkpoint to the next (default: 10)
 *   --fail-at LIST numbers of computed iterations, including recomputed ones,
 *                  after which a process loses its data: 25,37 (the k-th failure
 *                  is that of process k mod the number of processes)
 *   --file FILE    file of `disk` (default: argtrig.kept)
 *
 * The ways are those of X. Liu's thesis on communication-induced redundancy,
 * chapter 5.  Losses are simulated: the process's memory is overwritten between two
 * iterations.  A real failure would first have to be detected, and the process
 * replaced, which the times of these ways do not include.
 *
 * In addition to argtrig's output with --times, it prints: the number of
 * checkpoints, the median time of one in seconds, the bytes that a process keeps;
 * the number of recoveries, their total time in seconds until all data are restored
 * (`load`) and until the lost iterations have been recomputed (`rollback`).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mpi.h>

#include "newton.h"
#include "understudy.h"

enum { TAG_KEEP = 40, MOST = 1000 };

/* Data that a process keeps. */
typedef struct copy {
    char *own, *partners; /* x, f and Jacobian */
    size_t bytes;
    long iteration;
    int keeper, kept; /* keeper of this process's data; process whose data it keeps */
    const char *path;
    int file;
} copy;

typedef struct way {
    const char *name;
    void (*begin)(copy *c, const newton *p);
    void (*keep)(copy *c, const newton *p);
    /* Restores all data, in all processes, after this one has lost them. */
    void (*restore)(copy *c, newton *p, int victim);
} way;

static void fail(const char *what)
{
    fprintf(stderr, "argtrig_kept: %s: %s\n", what, strerror(errno));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *room(size_t bytes)
{
    void *memory = malloc(bytes + 1);
    if (!memory)
        fail("memory");
    /* Present before it is used, so that no checkpoint includes the page faults. */
    return memset(memory, 0, bytes + 1);
}

static size_t length(const newton *p)
{
    const lu_system *s = &p->system;
    return sizeof(double) * (size_t)(s->order + s->rows + s->rows * s->columns);
}

static void pack(const newton *p, char *to)
{
    const lu_system *s = &p->system;
    size_t x = sizeof(double) * (size_t)s->order, f = sizeof(double) * (size_t)s->rows;
    memcpy(to, p->x, x);
    memcpy(to + x, p->f, f);
    memcpy(to + x + f, s->matrix, f * (size_t)s->columns);
}

static void unpack(newton *p, const char *from)
{
    lu_system *s = &p->system;
    size_t x = sizeof(double) * (size_t)s->order, f = sizeof(double) * (size_t)s->rows;
    memcpy(p->x, from, x);
    memcpy(p->f, from + x, f);
    memcpy(s->matrix, from + x + f, f * (size_t)s->columns);
}

static void nothing(copy *c, const newton *p)
{
    (void)c;
    (void)p;
}

/* --- none: only the start is known --------------------------------------------- */

static void restart(copy *c, newton *p, int victim)
{
    (void)victim;
    newton_begin(p);
    c->iteration = 0;
}

/* --- disk: one file, a place for each process ----------------------------------- */

static void disk_begin(copy *c, const newton *p)
{
    unsigned long long mine = length(p), before = 0;

    c->bytes = mine;
    c->own = room(c->bytes);
    c->file = open(c->path, O_RDWR | O_CREAT, 0666);
    if (c->file < 0)
        fail(c->path);
    MPI_Exscan(&mine, &before, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, p->system.all);
    if (lseek(c->file, (off_t)(p->system.rank ? before : 0), SEEK_SET) < 0)
        fail(c->path);
}

/* Reads, or writes, all of the process's place. */
static void transfer(copy *c, int writes)
{
    off_t at = lseek(c->file, 0, SEEK_CUR);
    for (size_t done = 0; done < c->bytes;) {
        ssize_t some = writes ? pwrite(c->file, c->own + done, c->bytes - done, at + (off_t)done)
                              : pread(c->file, c->own + done, c->bytes - done, at + (off_t)done);
        if (some <= 0)
            fail(c->path);
        done += (size_t)some;
    }
}

static void disk_keep(copy *c, const newton *p)
{
    pack(p, c->own);
    transfer(c, 1);
    if (fsync(c->file) != 0)
        fail(c->path);
}

static void disk_restore(copy *c, newton *p, int victim)
{
    (void)victim;
    transfer(c, 0);
    unpack(p, c->own);
}

/* --- diskless: 2i and 2i + 1 keep each other's data ------------------------------ */

static void diskless_begin(copy *c, const newton *p)
{
    int rank = p->system.rank, size = p->system.size, last = size - size % 2 - 1;
    unsigned long long mine = length(p), theirs = mine;

    c->keeper = c->kept = size > 1 ? rank ^ 1 : rank;
    /* With an odd number of processes, the last three form a ring. */
    if (size > 1 && size % 2 == 1 && rank >= last - 1) {
        c->keeper = rank == size - 1 ? last - 1 : rank + 1;
        c->kept = rank == last - 1 ? size - 1 : rank - 1;
    }
    MPI_Sendrecv(&mine, 1, MPI_UNSIGNED_LONG_LONG, c->keeper, TAG_KEEP, &theirs, 1, MPI_UNSIGNED_LONG_LONG, c->kept,
                 TAG_KEEP, p->system.all, MPI_STATUS_IGNORE);
    c->bytes = (size_t)(mine + theirs);
    c->own = room((size_t)mine);
    c->partners = room((size_t)theirs);
}

static void diskless_keep(copy *c, const newton *p)
{
    size_t mine = length(p);
    pack(p, c->own);
    MPI_Sendrecv(c->own, (int)mine, MPI_BYTE, c->keeper, TAG_KEEP, c->partners, (int)(c->bytes - mine), MPI_BYTE,
                 c->kept, TAG_KEEP, p->system.all, MPI_STATUS_IGNORE);
}

/* The victim has lost both copies: it gets its own from its keeper, and a new copy
 * of the data that it keeps. */
static void diskless_restore(copy *c, newton *p, int victim)
{
    size_t mine = length(p), theirs = c->bytes - mine;
    int rank = p->system.rank;

    if (c->kept == victim && rank != victim)
        MPI_Send(c->partners, (int)theirs, MPI_BYTE, victim, TAG_KEEP, p->system.all);
    if (rank == victim && c->keeper != rank) {
        MPI_Recv(c->own, (int)mine, MPI_BYTE, c->keeper, TAG_KEEP, p->system.all, MPI_STATUS_IGNORE);
        MPI_Recv(c->partners, (int)theirs, MPI_BYTE, c->kept, TAG_KEEP, p->system.all, MPI_STATUS_IGNORE);
    }
    if (c->keeper == victim && rank != victim)
        MPI_Send(c->own, (int)mine, MPI_BYTE, victim, TAG_KEEP, p->system.all);
    unpack(p, c->own);
}

/* --- scheme: all have x ------------------------------------------------------------ */

static void scheme_begin(copy *c, const newton *p)
{
    c->bytes = sizeof(double) * (size_t)p->system.order + sizeof c->iteration;
}

/*
 * A neighbour sends the data that the victim cannot compute: x, and the number of
 * the iteration.
 */
static void scheme_restore(copy *c, newton *p, int victim)
{
    int neighbour = (victim + 1) % p->system.size, rank = p->system.rank;

    if (rank == neighbour && rank != victim) {
        MPI_Send(&c->iteration, 1, MPI_LONG, victim, TAG_KEEP, p->system.all);
        MPI_Send(p->x, (int)p->system.order, MPI_DOUBLE, victim, TAG_KEEP, p->system.all);
    }
    if (rank == victim && rank != neighbour) {
        MPI_Recv(&c->iteration, 1, MPI_LONG, neighbour, TAG_KEEP, p->system.all, MPI_STATUS_IGNORE);
        MPI_Recv(p->x, (int)p->system.order, MPI_DOUBLE, neighbour, TAG_KEEP, p->system.all, MPI_STATUS_IGNORE);
    }
    newton_evaluate(p);
    newton_differentiate(p);
}

/* --- the run ------------------------------------------------------------------------ */

static const way WAYS[] = {
    {"none", nothing, nothing, restart},
    {"disk", disk_begin, disk_keep, disk_restore},
    {"diskless", diskless_begin, diskless_keep, diskless_restore},
    {"scheme", scheme_begin, nothing, scheme_restore},
    {"discard", nothing, nothing, NULL},
};

typedef struct plan {
    const way *way;
    long every;
    long failures[MOST], count; /* computed iterations at which a process fails */
} plan;

typedef struct figures {
    double checkpoints[MOST], load, rollback;
    long kept, recoveries;
} figures;

static double seconds(const newton *p)
{
    MPI_Barrier(p->system.all);
    return MPI_Wtime();
}

static void checkpoint(const plan *plan, copy *c, const newton *p, figures *f, long it)
{
    double begin = seconds(p);
    plan->way->keep(c, p);
    c->iteration = it;
    double end = seconds(p);
    if (f->kept < MOST)
        f->checkpoints[f->kept++] = end - begin;
}

/* Loses all data of the victim: those with which it computes, and those it keeps. */
static void lose(copy *c, newton *p)
{
    memset(p->x, 0xff, sizeof(double) * (size_t)p->system.order);
    memset(p->f, 0xff, sizeof(double) * (size_t)p->system.rows);
    memset(p->system.matrix, 0xff, sizeof(double) * (size_t)(p->system.rows * p->system.columns));
    if (c->own)
        memset(c->own, 0xff, length(p));
    if (c->partners)
        memset(c->partners, 0xff, c->bytes - length(p));
}

/* Before an iteration, the data that the iteration fills are not needed. */
static void discard(const lu_system *s)
{
    size_t width = (size_t)s->block, rows = (size_t)s->rows, columns = (size_t)s->columns + 1;
    understudy_discard(s->matrix, rows * columns * sizeof(double));
    understudy_discard(s->panel, (rows + width) * width * sizeof(double));
    understudy_discard(s->upper, columns * width * sizeof(double));
}

static void compute(const plan *plan, const newton_options *o, copy *c, newton *p, figures *f)
{
    long it = 0, computed = 0, next = 0, lost_at = -1;
    double begun = 0.0;
    int keeps = plan->way->keep != nothing, goes_back = strcmp(plan->way->name, "scheme") != 0;

    c->iteration = keeps ? -1 : 0;
    while (it < o->iterations) {
        if (keeps && it % plan->every == 0 && c->iteration != it)
            checkpoint(plan, c, p, f, it);
        if (next < plan->count && plan->failures[next] == computed) {
            int victim = (int)((next++ + 1) % p->system.size);
            begun = seconds(p);
            if (p->system.rank == victim)
                lose(c, p);
            if (!goes_back)
                c->iteration = it;
            lost_at = lost_at > it ? lost_at : it;
            plan->way->restore(c, p, victim);
            it = c->iteration;
            f->load += seconds(p) - begun;
            f->recoveries++;
            begun = MPI_Wtime();
        }
        if (strcmp(plan->way->name, "discard") == 0)
            discard(&p->system);
        newton_iterate(p, o, it);
        it++;
        computed++;
        if (it == lost_at) {
            f->rollback += seconds(p) - begun;
            lost_at = -1;
        }
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const copy *c, figures *f)
{
    qsort(f->checkpoints, (size_t)f->kept, sizeof(double), compare);
    printf("checkpoints %ld\ncheckpoint %.6f\nkept %zu\n", f->kept, f->kept ? f->checkpoints[f->kept / 2] : 0.0,
           c->bytes);
    printf("recoveries %ld\nload %.6f\nrollback %.6f\n", f->recoveries, f->load, f->rollback);
}

static int parse(plan *plan, newton_options *o, copy *c, int argc, char **argv)
{
    *plan = (struct plan){.every = 10};
    c->path = "argtrig.kept";
    for (size_t i = 0; argc > 1 && i < sizeof WAYS / sizeof *WAYS; i++)
        if (strcmp(argv[1], WAYS[i].name) == 0)
            plan->way = &WAYS[i];
    int i = plan->way ? newton_parse(o, argc, argv, 2) : -1;
    for (; i > 0 && i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--every") == 0)
            plan->every = atol(argv[i + 1]);
        else if (strcmp(argv[i], "--file") == 0)
            c->path = argv[i + 1];
        else if (strcmp(argv[i], "--fail-at") == 0)
            for (char *at = argv[i + 1], *end = NULL; at != end && plan->count < MOST; at = *end == ',' ? end + 1 : end) {
                plan->failures[plan->count++] = strtol(at, &end, 10);
                if (end == at)
                    return 0;
            }
        else
            return 0;
    }
    return i == argc && plan->every > 0 && (plan->count == 0 || plan->way->restore);
}

int main(int argc, char **argv)
{
    newton_options o;
    newton p;
    plan plan;
    copy c = {0};
    figures f = {0};
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!parse(&plan, &o, &c, argc, argv)) {
        if (rank == 0)
            fprintf(stderr, "usage: argtrig_kept none|disk|diskless|scheme|discard N ITERATIONS [OUTPUT] "
                            "[argtrig's options] [--every C] [--fail-at N,N...] [--file FILE]\n");
        MPI_Finalize();
        return 2;
    }
    newton_create(&p, &o);
    plan.way->begin(&c, &p);
    double begin = MPI_Wtime();
    compute(&plan, &o, &c, &p, &f);
    newton_evaluate(&p);
    newton_print_times(&p, begin);
    if (rank == 0) {
        report(&c, &f);
        printf("argtrig: done, norm %.15e\n", p.norm);
    }
    int ok = newton_write(&p, &o);
    free(c.own);
    free(c.partners);
    newton_free(&p);
    MPI_Finalize();
    return ok ? 0 : 1;
}
