/*
 * newton: Newton's method for the problem ARGTRIG of the CUTEr collection,
 *
 *   f_i(x) = n - sum_j cos x_j + i (1 - cos x_i) - sin x_i = 0,   i = 1..n.
 *
 * Its Jacobian is dense, so nearly all of the time is spent on one system of
 * equations for each iteration.  Every process has all of x; the Jacobian and the
 * values of f are distributed.
 */
#ifndef NEWTON_H
#define NEWTON_H

#include "lu.h"

typedef struct newton {
    lu_system system;
    double *x;    /* all of it, in every process */
    double *step; /* likewise */
    double *f;    /* rows of this process */
    double norm;  /* of f, in every process */
} newton;

typedef struct newton_options {
    long unknowns, iterations;
    long block;       /* rows of a block of the matrix */
    long restart;     /* iterations until x begins again; 0: never */
    long print_every; /* iterations */
    int times;        /* print the elapsed times */
    const char *output;
} newton_options;

/* Reads the options from argv[first] on.  Returns the index of the first word that
 * is no option, argc if there is none, or -1. */
int newton_parse(newton_options *o, int argc, char **argv, int first);

/* Collective over all processes, like all functions below.  Aborts if there is no
 * memory. */
void newton_create(newton *p, const newton_options *o);
void newton_free(newton *p);

/* x of iteration 0. */
void newton_begin(newton *p);

/* The values of f, and their norm. */
void newton_evaluate(newton *p);

/* The Jacobian, as the matrix of the system. */
void newton_differentiate(newton *p);

/* Iteration `it`: evaluates, and improves x. */
void newton_iterate(newton *p, const newton_options *o, long it);

/* Writes x into a file.  Returns 0, in rank 0, if that is not possible. */
int newton_write(const newton *p, const newton_options *o);

/* Wall-clock time since `begin`, and processor time of all processes so far,
 * printed by rank 0 as "wall SECONDS" and "processor SECONDS". */
void newton_print_times(const newton *p, double begin);

#endif
