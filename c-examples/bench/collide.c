/*
 * collide: ways to return to an earlier state, on colliding particles.
 *
 *   mpirun -n 1 collide SCHEME N POTENTIAL
 *
 *   full      before each collision all positions and velocities are saved
 *   optimal   all positions, and the two velocities that change
 *   pages     the pages of 4 KiB that change
 *   reverse   only one bit is saved: the program computes backwards
 *
 * N particles move in a square with periodic boundaries. POTENTIAL pairs are drawn;
 * those whose particles approach each other collide: all particles move for a
 * random time, then the two exchange momentum along a random direction. After all
 * pairs, the program returns to the initial state and checks that it is equal.
 * Ranks do this with other numbers each, and do not communicate.
 *
 * Prints, of the slowest rank: `forward` and `back` in seconds of processor time
 * and in seconds of wall time; the number of `collisions`; `saved` bytes; `error`,
 * the largest difference from the initial state.
 *
 * The schemes are those of Perumalla and Park: "Reverse computation for
 * rollback-based fault tolerance in large parallel systems" (2014). Compiled with
 * -DFIXED, positions and velocities are integers, without rounding.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mpi.h>

enum { PAGE = 4096 };

/* --- numbers ------------------------------------------------------------------ */

/* A linear congruential generator, which can step back. */
typedef struct stream {
    uint64_t state;
} stream;

#define FACTOR 6364136223846793005ull
#define INVERSE 13877824140714322085ull /* of FACTOR, modulo 2^64 */
#define SUMMAND 1442695040888963407ull
_Static_assert(FACTOR * INVERSE == 1, "a step back undoes a step");

/* Returns the upper half, as the lower bits have short periods. */
static uint32_t draw(stream *s)
{
    s->state = s->state * FACTOR + SUMMAND;
    return (uint32_t)(s->state >> 32);
}

static void back(stream *s)
{
    s->state = (s->state - SUMMAND) * INVERSE;
}

#ifdef FIXED

typedef uint64_t place; /* fraction of the square's side; overflow wraps around */
typedef int64_t speed;
typedef int64_t span; /* of time */

static place random_place(stream *s)
{
    return (uint64_t)draw(s) << 32;
}

/* Small enough that no product with a span overflows. */
static speed random_speed(stream *s)
{
    return (int32_t)draw(s) >> 8;
}

static span random_span(stream *s)
{
    return draw(s);
}

static place moved(place x, speed v, span t)
{
    return x + (uint64_t)(v * t);
}

/* Shortest distance from one place to another. */
static double distance(place from, place to)
{
    return (double)(int64_t)(to - from);
}

/* Exchanges momentum along an axis or a diagonal. A half is rounded down, so a second
 * exchange in the same direction undoes the first one exactly. */
static void exchange(speed *v, speed *w, uint32_t direction)
{
    speed x = v[0] - w[0], y = v[1] - w[1], half;
    switch (direction >> 30) {
    case 0:
        v[0] -= x, w[0] += x;
        return;
    case 1:
        v[1] -= y, w[1] += y;
        return;
    case 2:
        half = (x + y) >> 1;
        v[0] -= half, v[1] -= half, w[0] += half, w[1] += half;
        return;
    default:
        half = (x - y) >> 1;
        v[0] -= half, v[1] += half, w[0] += half, w[1] -= half;
    }
}

#else

typedef double place; /* in [0, 1) */
typedef double speed;
typedef double span;

static place random_place(stream *s)
{
    return draw(s) * 0x1p-32;
}

static speed random_speed(stream *s)
{
    return draw(s) * 0x1p-31 - 1.0;
}

static span random_span(stream *s)
{
    return draw(s) * 0x1p-32 * 0.01;
}

static place moved(place x, speed v, span t)
{
    x += v * t;
    x += x < 0.0 ? 1.0 : 0.0;
    return x - (x >= 1.0 ? 1.0 : 0.0);
}

static double distance(place from, place to)
{
    double d = to - from;
    return d - rint(d);
}

static void exchange(speed *v, speed *w, uint32_t direction)
{
    double angle = direction * 0x1p-32 * 6.283185307179586, x = cos(angle), y = sin(angle);
    double along = (v[0] - w[0]) * x + (v[1] - w[1]) * y;
    v[0] -= along * x, v[1] -= along * y;
    w[0] += along * x, w[1] += along * y;
}

#endif

/* --- the particles --------------------------------------------------------------- */

typedef struct particles {
    size_t count, bytes; /* of each array, in whole pages */
    place (*x)[2];
    speed (*v)[2];
    stream pairs, times;
    uint64_t drawn; /* pairs */
} particles;

static void *whole_pages(size_t bytes)
{
    void *memory = bytes ? aligned_alloc(PAGE, bytes) : NULL;
    if (bytes && !memory) {
        fprintf(stderr, "collide: no memory for %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    /* First accesses to new memory would cost more than all that is measured. */
    return memory ? memset(memory, 0, bytes) : NULL;
}

static void begin(particles *p, size_t count, uint64_t seed)
{
    stream s = {seed * 2 + 1};
    p->count = count;
    p->bytes = (count * sizeof *p->x + PAGE - 1) / PAGE * PAGE;
    p->x = whole_pages(p->bytes);
    p->v = whole_pages(p->bytes);
    for (size_t k = 0; k < count; k++)
        for (int d = 0; d < 2; d++) {
            p->x[k][d] = random_place(&s);
            p->v[k][d] = random_speed(&s);
        }
    p->pairs = (stream){seed + 1000003};
    p->times = (stream){seed + 2000003};
}

static void move_all(particles *p, span t)
{
    place *x = p->x[0];
    const speed *v = p->v[0];
#pragma omp simd
    for (size_t k = 0; k < 2 * p->count; k++)
        x[k] = moved(x[k], v[k], t);
}

static int is_approaching(const particles *p, size_t i, size_t j)
{
    double along = 0.0;
    for (int d = 0; d < 2; d++)
        along += distance(p->x[j][d], p->x[i][d]) * (double)(p->v[i][d] - p->v[j][d]);
    return along < 0.0;
}

/* --- what is saved ---------------------------------------------------------------- */

/* Memory that a collision of i and j changes, as far as the scheme can determine. */
typedef struct part {
    void *at;
    size_t bytes;
} part;

typedef int scheme(particles *p, size_t i, size_t j, part parts[3]);

static int full(particles *p, size_t i, size_t j, part parts[3])
{
    (void)i;
    (void)j;
    parts[0] = (part){p->x, p->count * sizeof *p->x};
    parts[1] = (part){p->v, p->count * sizeof *p->v};
    return 2;
}

static int optimal(particles *p, size_t i, size_t j, part parts[3])
{
    parts[0] = (part){p->x, p->count * sizeof *p->x};
    parts[1] = (part){p->v[i], sizeof *p->v};
    parts[2] = (part){p->v[j], sizeof *p->v};
    return 3;
}

static int pages(particles *p, size_t i, size_t j, part parts[3])
{
    size_t first = i * sizeof *p->v / PAGE, second = j * sizeof *p->v / PAGE;
    parts[0] = (part){p->x, p->bytes};
    parts[1] = (part){(char *)p->v + first * PAGE, PAGE};
    parts[2] = (part){(char *)p->v + second * PAGE, PAGE};
    return first == second ? 2 : 3;
}

typedef struct run {
    scheme *scheme; /* NULL: reverse */
    size_t potential, collisions;
    unsigned char *collided; /* a bit for each pair */
    char *saved;             /* consecutive records */
    size_t used;
} run;

static void save(run *r, particles *p, size_t i, size_t j)
{
    part parts[3];
    int count = r->scheme(p, i, j, parts);
    for (int k = 0; k < count; k++) {
        memcpy(r->saved + r->used, parts[k].at, parts[k].bytes);
        r->used += parts[k].bytes;
    }
}

static void restore(run *r, particles *p, size_t i, size_t j)
{
    part parts[3];
    for (int k = r->scheme(p, i, j, parts); k-- > 0;) {
        r->used -= parts[k].bytes;
        memcpy(parts[k].at, r->saved + r->used, parts[k].bytes);
    }
}

/* --- forward and back ---------------------------------------------------------------- */

static void draw_pair(particles *p, size_t *i, size_t *j)
{
    *i = draw(&p->pairs) % p->count;
    *j = draw(&p->pairs) % p->count;
    p->drawn++;
}

static void back_pair(particles *p)
{
    back(&p->pairs);
    back(&p->pairs);
    p->drawn--;
}

static void go_forward(run *r, particles *p)
{
    size_t i, j;
    for (size_t k = 0; k < r->potential; k++) {
        do
            draw_pair(p, &i, &j);
        while (i == j);
        if (!is_approaching(p, i, j))
            continue;
        if (r->scheme)
            save(r, p, i, j);
        r->collided[k / 8] |= (unsigned char)(1 << k % 8);
        r->collisions++;
        move_all(p, random_span(&p->times));
        exchange(p->v[i], p->v[j], draw(&p->times));
    }
}

/* The inverse of a collision, without any saved data. */
static void undo(particles *p, size_t i, size_t j)
{
    stream before = p->times;
    back(&before);
    exchange(p->v[i], p->v[j], draw(&before));
    back(&before);
    back(&before);
    move_all(p, -random_span(&before));
}

static void go_back(run *r, particles *p)
{
    size_t i, j;
    for (size_t k = r->potential; k-- > 0;) {
        do {
            back_pair(p);
            draw_pair(p, &i, &j);
            back_pair(p);
        } while (i == j);
        if (!(r->collided[k / 8] & 1 << k % 8))
            continue;
        if (r->scheme)
            restore(r, p, i, j);
        else
            undo(p, i, j);
        back(&p->times);
        back(&p->times);
    }
    /* Pairs of a particle with itself that were drawn before the first valid pair. */
    while (p->drawn > 0)
        back_pair(p);
}

/* --- the run --------------------------------------------------------------------------- */

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The largest difference of two states. */
static double difference(const particles *p, const particles *q)
{
    double most = p->pairs.state != q->pairs.state || p->times.state != q->times.state ? INFINITY : 0.0;
    for (size_t k = 0; k < p->count; k++)
        for (int d = 0; d < 2; d++) {
            most = fmax(most, fabs(distance(p->x[k][d], q->x[k][d])));
            most = fmax(most, fabs((double)(p->v[k][d] - q->v[k][d])));
        }
    return most;
}

static void print_most(const char *name, const double *values, int count)
{
    double most[2];
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Reduce(values, most, count, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank != 0)
        return;
    printf("%s", name);
    for (int k = 0; k < count; k++)
        printf(" %.9g", most[k]);
    printf("\n");
}

/* Processor time, and wall time. */
static void timed(const char *name, void (*act)(run *, particles *), run *r, particles *p)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double used = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
    act(r, p);
    double times[2] = {seconds(CLOCK_PROCESS_CPUTIME_ID) - used, seconds(CLOCK_MONOTONIC) - wall};
    print_most(name, times, 2);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        scheme *scheme;
    } SCHEMES[] = {{"full", full}, {"optimal", optimal}, {"pages", pages}, {"reverse", NULL}};
    enum { COUNT = sizeof SCHEMES / sizeof *SCHEMES };
    int rank, which = 0;
    particles p = {0}, first = {0};
    run r = {0};

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    while (argc == 4 && which < COUNT && strcmp(argv[1], SCHEMES[which].name) != 0)
        which++;
    long count = argc == 4 ? atol(argv[2]) : 0, potential = argc == 4 ? atol(argv[3]) : 0;
    if (which == COUNT || count < 2 || potential < 1) {
        if (rank == 0)
            fprintf(stderr, "usage: collide full|optimal|pages|reverse N POTENTIAL\n");
        MPI_Finalize();
        return 2;
    }
    begin(&p, (size_t)count, (uint64_t)rank + 1);
    begin(&first, (size_t)count, (uint64_t)rank + 1);
    r.potential = (size_t)potential;
    r.collided = calloc(r.potential / 8 + 1, 1);

    /*
     * A first run counts the collisions, for which memory is then allocated, and
     * fills the caches.
     */
    run rehearsal = r;
    go_forward(&rehearsal, &p);
    go_back(&rehearsal, &p);
    memset(r.collided, 0, r.potential / 8 + 1);
    memcpy(p.x, first.x, p.bytes);
    memcpy(p.v, first.v, p.bytes);
    r.scheme = SCHEMES[which].scheme;
    size_t record = r.scheme == full ? 2 * p.bytes : p.bytes + 2 * PAGE;
    r.saved = whole_pages(r.scheme ? rehearsal.collisions * record : 0);

    timed("forward", go_forward, &r, &p);
    double collisions = (double)r.collisions, saved = (double)r.used;
    timed("back", go_back, &r, &p);
    double error = difference(&p, &first);
    print_most("collisions", &collisions, 1);
    print_most("saved", &saved, 1);
    print_most("error", &error, 1);
    MPI_Finalize();
    return 0;
}
