/*
 * lu: dense systems of equations on a grid of processes.
 *
 * The matrix is distributed in square blocks, block (i, j) to the process in row i
 * mod P and column j mod Q of the grid: every process has about an equal share of
 * each part that is still to be eliminated.  A process keeps its rows and columns
 * as one array, column by column, with its rows of the right side after the last
 * column.  (All processes of a grid row keep equal parts of the right side, so it
 * needs no separate treatment.)
 */
#ifndef LU_H
#define LU_H

#include <mpi.h>

typedef struct lu_system {
    MPI_Comm all, row, column; /* all processes, those of this grid row, of this grid column */
    int rank, size;
    int grid_rows, grid_columns, grid_row, grid_column;
    long order, block;     /* unknowns; rows and columns of a block */
    long rows, columns;    /* of the matrix, in this process */
    double *matrix;        /* rows x (columns + 1) */
    double *panel, *upper; /* room for data of other processes */
    int *pivots;
} lu_system;

/* Collective over `all`.  Returns 0 if there is no memory for the system. */
int lu_create(lu_system *s, MPI_Comm all, long order, long block);
void lu_free(lu_system *s);

/* Number in the whole matrix of a local row or column. */
long lu_row(const lu_system *s, long row);
long lu_column(const lu_system *s, long column);

/*
 * Collective.  Eliminates with partial pivoting, which overwrites the matrix,
 * and leaves the whole solution in every process.  Returns 0, everywhere, if
 * the matrix is singular.
 */
int lu_solve(lu_system *s, double *solution);

#endif
