#define _XOPEN_SOURCE 700
#include "newton.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static int parse_count(const char *text, long least, long *value)
{
    char *end;
    *value = strtol(text, &end, 10);
    return end != text && *end == '\0' && *value >= least;
}

int newton_parse(newton_options *o, int argc, char **argv, int first)
{
    struct {
        const char *name;
        long least, *value;
    } numbers[] = {
        {"--block", 1, &o->block}, {"--restart", 0, &o->restart}, {"--print-every", 1, &o->print_every}};
    int i = first + 2;

    *o = (newton_options){.block = 32, .restart = 10, .print_every = 10};
    if (argc < i || !parse_count(argv[first], 1, &o->unknowns) || !parse_count(argv[first + 1], 0, &o->iterations))
        return -1;
    if (i < argc && argv[i][0] != '-')
        o->output = argv[i++];
    for (; i < argc; i++) {
        size_t option = 0;
        if (strcmp(argv[i], "--times") == 0) {
            o->times = 1;
            continue;
        }
        while (option < sizeof numbers / sizeof *numbers && strcmp(argv[i], numbers[option].name) != 0)
            option++;
        if (option == sizeof numbers / sizeof *numbers)
            return i;
        if (i + 1 == argc || !parse_count(argv[++i], numbers[option].least, numbers[option].value))
            return -1;
    }
    return argc;
}

void newton_create(newton *p, const newton_options *o)
{
    size_t n = (size_t)o->unknowns;
    int has_memory = lu_create(&p->system, MPI_COMM_WORLD, o->unknowns, o->block);

    p->x = malloc(n * sizeof(double));
    p->step = malloc(n * sizeof(double));
    p->f = calloc((size_t)p->system.rows + 1, sizeof(double));
    if (!has_memory || !p->x || !p->step || !p->f) {
        fprintf(stderr, "argtrig: out of memory (%ld unknowns)\n", o->unknowns);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    newton_begin(p);
}

void newton_free(newton *p)
{
    lu_free(&p->system);
    free(p->x);
    free(p->step);
    free(p->f);
}

void newton_begin(newton *p)
{
    for (long i = 0; i < p->system.order; i++)
        p->x[i] = 1.0 / (double)p->system.order;
}

void newton_evaluate(newton *p)
{
    const lu_system *s = &p->system;
    double cosines = 0.0, squares = 0.0;

    for (long j = 0; j < s->order; j++)
        cosines += cos(p->x[j]);
    for (long r = 0; r < s->rows; r++) {
        long i = lu_row(s, r);
        double x = p->x[i];
        p->f[r] = (double)s->order - cosines + (double)(i + 1) * (1.0 - cos(x)) - sin(x);
        squares += p->f[r] * p->f[r];
    }
    /* The processes of a grid row have equal rows. */
    if (s->grid_column != 0)
        squares = 0.0;
    MPI_Allreduce(&squares, &p->norm, 1, MPI_DOUBLE, MPI_SUM, s->all);
    p->norm = sqrt(p->norm);
}

void newton_differentiate(newton *p)
{
    lu_system *s = &p->system;

    for (long c = 0; c < s->columns; c++) {
        long j = lu_column(s, c);
        double *column = s->matrix + c * s->rows, sine = sin(p->x[j]);
        for (long r = 0; r < s->rows; r++)
            column[r] = sine;
    }
    for (long r = 0; r < s->rows; r++) {
        long i = lu_row(s, r), block = i / s->block;
        if (block % s->grid_columns == s->grid_column) {
            long c = block / s->grid_columns * s->block + i % s->block;
            s->matrix[c * s->rows + r] = (double)(i + 2) * sin(p->x[i]) - cos(p->x[i]);
        }
    }
}

void newton_iterate(newton *p, const newton_options *o, long it)
{
    lu_system *s = &p->system;

    if (o->restart > 0 && it % o->restart == 0)
        newton_begin(p);
    newton_evaluate(p);
    if (s->rank == 0 && it % o->print_every == 0) {
        printf("iteration %6ld  norm %.15e\n", it, p->norm);
        fflush(stdout);
    }
    newton_differentiate(p);
    for (long r = 0; r < s->rows; r++)
        s->matrix[s->columns * s->rows + r] = -p->f[r];
    if (!lu_solve(s, p->step)) {
        if (s->rank == 0)
            fprintf(stderr, "argtrig: the Jacobian of iteration %ld is singular\n", it);
        MPI_Abort(s->all, 1);
    }
    for (long i = 0; i < s->order; i++)
        p->x[i] += p->step[i];
}

int newton_write(const newton *p, const newton_options *o)
{
    if (!o->output || p->system.rank != 0)
        return 1;
    FILE *f = fopen(o->output, "w");
    int good = f != NULL;
    if (good) {
        fprintf(f, "argtrig %ld %ld\n", o->unknowns, o->iterations);
        fwrite(p->x, sizeof(double), (size_t)o->unknowns, f);
        good = !ferror(f);
        good = fclose(f) == 0 && good;
    }
    if (!good)
        perror(o->output);
    return good;
}

void newton_print_times(const newton *p, double begin)
{
    struct rusage usage;
    double wall, used, all;

    MPI_Barrier(p->system.all);
    wall = MPI_Wtime() - begin;
    getrusage(RUSAGE_SELF, &usage);
    used = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    MPI_Reduce(&used, &all, 1, MPI_DOUBLE, MPI_SUM, 0, p->system.all);
    if (p->system.rank == 0)
        printf("wall %.6f\nprocessor %.6f\n", wall, all);
}
