/*
 * figures: measurements of two ranks, one after the other.
 *
 * The command line is [ROUNDS [FIGURE...]]. Rank 0 prints one line for each figure,
 * `name value`, the best of ROUNDS rounds. Rounds are so short that other processes
 * of the machine do not disturb all of them.
 */
#ifndef FIGURES_H
#define FIGURES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

typedef struct figure {
    const char *name;
    /* One round: seconds, or bytes per second. Both ranks call it. */
    double (*run)(int rank);
    int is_rate;
} figure;

/* True if the command line names this figure, or none. */
static int is_wanted(const char *name, int argc, char **argv)
{
    int found = argc <= 2;
    for (int i = 2; i < argc; i++)
        found |= strcmp(argv[i], name) == 0;
    return found;
}

static void print_figures(const figure *figures, size_t count, int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2 || rounds < 1) {
        fprintf(stderr, "%s: needs two ranks, and at least one round\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (size_t f = 0; f < count; f++) {
        if (!is_wanted(figures[f].name, argc, argv))
            continue;
        double best = figures[f].run(rank);
        for (int r = 1; r < rounds; r++) {
            double figure = figures[f].run(rank);
            if (figures[f].is_rate ? figure > best : figure < best)
                best = figure;
        }
        if (rank == 0)
            printf("%s %.6e\n", figures[f].name, best);
    }
}

#endif
