/*
 * lu: dense systems of equations on a grid of processes.
 *
 * The matrix is dealt out in square blocks, block (i, j) to the process in row
 * i mod P and column j mod Q of the grid: whatever part of it is still to be
 * eliminated, every process has about as much of it.  A process keeps its rows
 * and columns as one array, column by column, with its rows of the right side
 * behind the last column.  (All processes of a grid row keep the same part of
 * the right side, so it needs no care of its own.)
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
    double *panel, *upper; /* room for what others send */
    int *pivots;
} lu_system;

/* Collective over `all`.  Returns 0 if there is no memory for it. */
int lu_create(lu_system *s, MPI_Comm all, long order, long block);
void lu_free(lu_system *s);

/* The number in the whole matrix of the row, or column, that has this one here. */
long lu_row(const lu_system *s, long row);
long lu_column(const lu_system *s, long column);

/*
 * Collective.  Eliminates with partial pivoting, which overwrites the matrix,
 * and leaves the whole solution in every process.  Returns 0, everywhere, if
 * the matrix is singular.
 */
int lu_solve(lu_system *s, double *solution);

#endif
