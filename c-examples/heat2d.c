/*
 * heat2d: Jacobi iterations for the temperature of a plate.
 *
 *   mpirun -n 4 heat2d NX NY ITERATIONS [OUTPUT] [options]
 *
 *   OUTPUT            file for the final field: a line of text with its shape,
 *                     then the rows as doubles
 *   --print-every K   print the residual every K iterations (default: 100)
 *   --check-every K   compute the residual every K iterations (default: 1)
 *   --log FILE        also append every printed line to FILE, which stays open
 *                     for the whole run
 *
 * The plate is divided into a grid of blocks, one per rank.  The output depends
 * only on the arguments and on the number of ranks.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

enum { TAG_HALO = 10, TAG_GATHER = 20 };

typedef struct {
    long nx, ny, iterations; /* nx columns, ny rows */
    long print_every, check_every;
    const char *output;
    const char *log;
} options;

/* One rank's block, with a rim of one cell around it. */
typedef struct {
    MPI_Comm comm;
    int rank, size;
    int up, down, left, right; /* neighbours, MPI_PROC_NULL at the rim */
    long row0, col0;           /* start of the block in the plate */
    long rows, cols;
    long stride; /* cols + 2 */
    double *now, *next;
    double *source;
    MPI_Datatype column;
} block;

static void usage(void)
{
    fprintf(stderr, "usage: heat2d NX NY ITERATIONS [OUTPUT] [--print-every K] [--check-every K] [--log FILE]\n");
}

static int parse_count(const char *text, long least, long *value)
{
    char *end;
    *value = strtol(text, &end, 10);
    return end != text && *end == '\0' && *value >= least;
}

static int parse(int argc, char **argv, options *o)
{
    long *numbers[3] = {&o->nx, &o->ny, &o->iterations};
    int positional = 0;

    *o = (options){.print_every = 100, .check_every = 1};
    for (int i = 1; i < argc; i++) {
        int has_value = i + 1 < argc;
        if (strcmp(argv[i], "--print-every") == 0 && has_value) {
            if (!parse_count(argv[++i], 1, &o->print_every))
                return 0;
        } else if (strcmp(argv[i], "--check-every") == 0 && has_value) {
            if (!parse_count(argv[++i], 1, &o->check_every))
                return 0;
        } else if (strcmp(argv[i], "--log") == 0 && has_value) {
            o->log = argv[++i];
        } else if (argv[i][0] == '-' || positional > 3) {
            return 0;
        } else {
            if (positional == 3)
                o->output = argv[i];
            else if (!parse_count(argv[i], positional < 2 ? 1 : 0, numbers[positional]))
                return 0;
            positional++;
        }
    }
    return positional >= 3;
}

/* Start of share `part` of `parts` of n cells. */
static long share(long n, int parts, int part)
{
    return n * part / parts;
}

static void *allocate(size_t count, size_t size)
{
    void *p = calloc(count, size);
    if (!p) {
        fprintf(stderr, "heat2d: out of memory (%zu x %zu bytes)\n", count, size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return p;
}

/* A number in [0, 1) that depends on the cell alone, so that start values do not
 * depend on the rank that computes them. */
static double noise(long row, long col)
{
    unsigned long long x = (unsigned long long)row * 0x9e3779b97f4a7c15ull + (unsigned long long)col;
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    x ^= x >> 31;
    return (double)(x >> 11) / 9007199254740992.0;
}

static double *cell(const block *b, double *field, long r, long c)
{
    return field + (r + 1) * b->stride + (c + 1);
}

static void block_init(block *b, const options *o)
{
    int dims[2] = {0, 0}, coords[2];

    MPI_Comm_dup(MPI_COMM_WORLD, &b->comm);
    MPI_Comm_rank(b->comm, &b->rank);
    MPI_Comm_size(b->comm, &b->size);
    MPI_Dims_create(b->size, 2, dims);
    coords[0] = b->rank / dims[1];
    coords[1] = b->rank % dims[1];
    b->up = coords[0] > 0 ? b->rank - dims[1] : MPI_PROC_NULL;
    b->down = coords[0] + 1 < dims[0] ? b->rank + dims[1] : MPI_PROC_NULL;
    b->left = coords[1] > 0 ? b->rank - 1 : MPI_PROC_NULL;
    b->right = coords[1] + 1 < dims[1] ? b->rank + 1 : MPI_PROC_NULL;
    if (o->ny < dims[0] || o->nx < dims[1]) {
        if (b->rank == 0)
            fprintf(stderr, "heat2d: %ld x %ld cells are too few for %d ranks\n", o->nx, o->ny, b->size);
        MPI_Finalize();
        exit(1);
    }

    b->row0 = share(o->ny, dims[0], coords[0]);
    b->col0 = share(o->nx, dims[1], coords[1]);
    b->rows = share(o->ny, dims[0], coords[0] + 1) - b->row0;
    b->cols = share(o->nx, dims[1], coords[1] + 1) - b->col0;
    b->stride = b->cols + 2;

    size_t cells = (size_t)(b->rows + 2) * (size_t)b->stride;
    b->now = allocate(cells, sizeof(double));
    b->next = allocate(cells, sizeof(double));
    b->source = allocate(cells, sizeof(double));

    /* A hot upper rim, noise inside, and a heat source off the middle. */
    for (long r = -1; r <= b->rows; r++)
        for (long c = -1; c <= b->cols; c++) {
            long row = b->row0 + r, col = b->col0 + c;
            int inside = row >= 0 && row < o->ny && col >= 0 && col < o->nx;
            double start = inside ? noise(row, col) : row < 0 ? 1.0 : 0.0;
            *cell(b, b->now, r, c) = start;
            *cell(b, b->next, r, c) = start;
            if (inside) {
                double y = (double)row / (double)o->ny - 0.6, x = (double)col / (double)o->nx - 0.3;
                *cell(b, b->source, r, c) = x * x + y * y < 0.01 ? 1e-3 : 0.0;
            }
        }

    /* A column of the block is strided in memory. */
    MPI_Type_vector((int)b->rows, 1, (int)b->stride, MPI_DOUBLE, &b->column);
    MPI_Type_commit(&b->column);
}

static void block_free(block *b)
{
    MPI_Type_free(&b->column);
    MPI_Comm_free(&b->comm);
    free(b->now);
    free(b->next);
    free(b->source);
}

static void start_halo(block *b, MPI_Request requests[8])
{
    double *f = b->now;
    int cols = (int)b->cols;

    MPI_Irecv(cell(b, f, -1, 0), cols, MPI_DOUBLE, b->up, TAG_HALO, b->comm, &requests[0]);
    MPI_Irecv(cell(b, f, b->rows, 0), cols, MPI_DOUBLE, b->down, TAG_HALO, b->comm, &requests[1]);
    MPI_Irecv(cell(b, f, 0, -1), 1, b->column, b->left, TAG_HALO, b->comm, &requests[2]);
    MPI_Irecv(cell(b, f, 0, b->cols), 1, b->column, b->right, TAG_HALO, b->comm, &requests[3]);
    MPI_Isend(cell(b, f, 0, 0), cols, MPI_DOUBLE, b->up, TAG_HALO, b->comm, &requests[4]);
    MPI_Isend(cell(b, f, b->rows - 1, 0), cols, MPI_DOUBLE, b->down, TAG_HALO, b->comm, &requests[5]);
    MPI_Isend(cell(b, f, 0, 0), 1, b->column, b->left, TAG_HALO, b->comm, &requests[6]);
    MPI_Isend(cell(b, f, 0, b->cols - 1), 1, b->column, b->right, TAG_HALO, b->comm, &requests[7]);
}

/* New values for some rows and columns; returns the squared change. */
static double relax(block *b, long row_from, long row_to, long col_from, long col_to)
{
    double change = 0.0;
    for (long r = row_from; r < row_to; r++) {
        const double *here = cell(b, b->now, r, 0);
        const double *above = here - b->stride, *below = here + b->stride;
        const double *source = cell(b, b->source, r, 0);
        double *out = cell(b, b->next, r, 0);
#pragma omp simd reduction(+ : change)
        for (long c = col_from; c < col_to; c++) {
            double value = 0.25 * (above[c] + below[c] + here[c - 1] + here[c + 1]) + source[c];
            double d = value - here[c];
            out[c] = value;
            change += d * d;
        }
    }
    return change;
}

/* One iteration; the interior is computed while the halo is in flight. */
static double iterate(block *b)
{
    MPI_Request requests[8];
    double change = 0.0;

    start_halo(b, requests);
    if (b->rows > 2 && b->cols > 2)
        change += relax(b, 1, b->rows - 1, 1, b->cols - 1);
    MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);

    change += relax(b, 0, 1, 0, b->cols);
    if (b->rows > 1)
        change += relax(b, b->rows - 1, b->rows, 0, b->cols);
    if (b->rows > 2) {
        change += relax(b, 1, b->rows - 1, 0, 1);
        if (b->cols > 1)
            change += relax(b, 1, b->rows - 1, b->cols - 1, b->cols);
    }

    double *t = b->now;
    b->now = b->next;
    b->next = t;
    return change;
}

/* Rank 0 collects all blocks.  The others describe theirs by a subarray type, so
 * that no rank copies elements itself. */
static double *gather(block *b, const options *o)
{
    long mine[4] = {b->row0, b->col0, b->rows, b->cols};
    long *all = b->rank == 0 ? allocate(4 * (size_t)b->size, sizeof(long)) : NULL;
    double *plate = NULL;
    MPI_Request request;
    MPI_Datatype inside;

    MPI_Gather(mine, 4, MPI_LONG, all, 4, MPI_LONG, 0, b->comm);

    int padded[2] = {(int)b->rows + 2, (int)b->cols + 2}, part[2] = {(int)b->rows, (int)b->cols}, at[2] = {1, 1};
    MPI_Type_create_subarray(2, padded, part, at, MPI_ORDER_C, MPI_DOUBLE, &inside);
    MPI_Type_commit(&inside);
    MPI_Isend(b->now, 1, inside, 0, TAG_GATHER, b->comm, &request);

    if (b->rank == 0) {
        plate = allocate((size_t)o->nx * (size_t)o->ny, sizeof(double));
        for (int r = 0; r < b->size; r++) {
            int whole[2] = {(int)o->ny, (int)o->nx};
            int start[2] = {(int)all[4 * r], (int)all[4 * r + 1]};
            int extent[2] = {(int)all[4 * r + 2], (int)all[4 * r + 3]};
            MPI_Datatype place;
            MPI_Type_create_subarray(2, whole, extent, start, MPI_ORDER_C, MPI_DOUBLE, &place);
            MPI_Type_commit(&place);
            MPI_Recv(plate, 1, place, r, TAG_GATHER, b->comm, MPI_STATUS_IGNORE);
            MPI_Type_free(&place);
        }
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Type_free(&inside);
    free(all);
    return plate;
}

static int write_plate(const options *o, const double *plate)
{
    FILE *f = fopen(o->output, "w");
    if (!f) {
        perror(o->output);
        return 0;
    }
    fprintf(f, "heat2d %ld %ld %ld\n", o->nx, o->ny, o->iterations);
    for (long r = 0; r < o->ny; r++)
        fwrite(plate + r * o->nx, sizeof(double), (size_t)o->nx, f);
    int good = !ferror(f);
    if (fclose(f) != 0 || !good) {
        perror(o->output);
        return 0;
    }
    return 1;
}

/* Called by rank 0 only. */
static void report(FILE *log, long iteration, double residual)
{
    printf("iteration %8ld  residual %.15e\n", iteration, residual);
    fflush(stdout);
    if (log)
        fprintf(log, "%ld %.15e\n", iteration, residual);
}

int main(int argc, char **argv)
{
    options o;
    block b;
    int rank, ok = 1;
    FILE *log = NULL;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!parse(argc, argv, &o)) {
        if (rank == 0)
            usage();
        MPI_Finalize();
        return 2;
    }

    block_init(&b, &o);
    if (b.rank == 0) {
        printf("heat2d: %ld x %ld cells, %ld iterations, %d ranks\n", o.nx, o.ny, o.iterations, b.size);
        fflush(stdout);
        if (o.log && !(log = fopen(o.log, "w"))) {
            perror(o.log);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }

    double residual = 0.0;
    for (long i = 1; i <= o.iterations; i++) {
        double change = iterate(&b);
        int printed = i % o.print_every == 0;
        if (printed || i % o.check_every == 0) {
            MPI_Allreduce(&change, &residual, 1, MPI_DOUBLE, MPI_SUM, b.comm);
            residual = sqrt(residual);
        }
        if (printed && b.rank == 0)
            report(log, i, residual);
    }

    double *plate = gather(&b, &o);
    if (b.rank == 0) {
        double heat = 0.0;
        for (long k = 0; k < o.nx * o.ny; k++)
            heat += plate[k];
        printf("heat2d: done, mean temperature %.15e\n", heat / ((double)o.nx * (double)o.ny));
        if (log && fclose(log) != 0) {
            perror(o.log);
            ok = 0;
        }
        if (o.output)
            ok = write_plate(&o, plate) && ok;
        free(plate);
    }
    MPI_Bcast(&ok, 1, MPI_INT, 0, b.comm);
    block_free(&b);
    MPI_Finalize();
    return ok ? 0 : 1;
}
