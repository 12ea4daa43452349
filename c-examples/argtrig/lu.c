#include "lu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_SWAP = 30 };

/* Number of the first `limit` rows or columns that process `p` of `count` has. */
static long owned(long limit, long block, int p, int count)
{
    long blocks = limit / block, mine = blocks / count * block;
    if (p < blocks % count)
        mine += block;
    else if (p == blocks % count)
        mine += limit % block;
    return mine;
}

/* Number of rows, or columns, in this process before block k. */
static long rows_before(const lu_system *s, long k)
{
    return owned(k * s->block < s->order ? k * s->block : s->order, s->block, s->grid_row, s->grid_rows);
}

static long columns_before(const lu_system *s, long k)
{
    return owned(k * s->block < s->order ? k * s->block : s->order, s->block, s->grid_column, s->grid_columns);
}

static long global(long local, long block, int p, int count)
{
    return (local / block * count + p) * block + local % block;
}

long lu_row(const lu_system *s, long row)
{
    return global(row, s->block, s->grid_row, s->grid_rows);
}

long lu_column(const lu_system *s, long column)
{
    return global(column, s->block, s->grid_column, s->grid_columns);
}

/* The grid row that has a row of the whole matrix, and its place there. */
static int row_owner(const lu_system *s, long row)
{
    return (int)(row / s->block % s->grid_rows);
}

static long local_row(const lu_system *s, long row)
{
    return row / (s->block * s->grid_rows) * s->block + row % s->block;
}

/* Rows of block k: the last one may be short. */
static long width(const lu_system *s, long k)
{
    long left = s->order - k * s->block;
    return left < s->block ? left : s->block;
}

int lu_create(lu_system *s, MPI_Comm all, long order, long block)
{
    int dims[2] = {0, 0};

    *s = (lu_system){.all = all, .order = order, .block = block};
    MPI_Comm_rank(all, &s->rank);
    MPI_Comm_size(all, &s->size);
    MPI_Dims_create(s->size, 2, dims);
    s->grid_rows = dims[0];
    s->grid_columns = dims[1];
    s->grid_row = s->rank / dims[1];
    s->grid_column = s->rank % dims[1];
    MPI_Comm_split(all, s->grid_row, s->grid_column, &s->row);
    MPI_Comm_split(all, s->grid_column, s->grid_row, &s->column);
    s->rows = owned(order, block, s->grid_row, s->grid_rows);
    s->columns = owned(order, block, s->grid_column, s->grid_columns);

    size_t width = (size_t)block, rows = (size_t)s->rows, columns = (size_t)s->columns + 1;
    s->matrix = calloc(rows * columns + 1, sizeof(double));
    s->panel = malloc((rows + width) * width * sizeof(double));
    s->upper = malloc(columns * width * sizeof(double));
    s->pivots = malloc(width * sizeof(int));
    return s->matrix && s->panel && s->upper && s->pivots;
}

void lu_free(lu_system *s)
{
    free(s->matrix);
    free(s->panel);
    free(s->upper);
    free(s->pivots);
    MPI_Comm_free(&s->row);
    MPI_Comm_free(&s->column);
}

/* Exchanges two rows of the whole matrix in columns from `begin` to `end` of
 * this process. */
static void swap_rows(lu_system *s, long one, long other, long begin, long end)
{
    int owner = row_owner(s, one), partner = row_owner(s, other);
    long count = end - begin;
    double *a = s->matrix + begin * s->rows;

    if (one == other || count == 0 || (s->grid_row != owner && s->grid_row != partner))
        return;
    if (owner == partner) {
        double *first = a + local_row(s, one), *second = a + local_row(s, other);
        for (long j = 0; j < count; j++) {
            double t = first[j * s->rows];
            first[j * s->rows] = second[j * s->rows];
            second[j * s->rows] = t;
        }
        return;
    }
    double *mine = a + local_row(s, s->grid_row == owner ? one : other), *line = s->upper;
    for (long j = 0; j < count; j++)
        line[j] = mine[j * s->rows];
    MPI_Sendrecv_replace(line, (int)count, MPI_DOUBLE, s->grid_row == owner ? partner : owner, TAG_SWAP,
                         s->grid_row == owner ? partner : owner, TAG_SWAP, s->column, MPI_STATUS_IGNORE);
    for (long j = 0; j < count; j++)
        mine[j * s->rows] = line[j];
}

/* The row, from `row` on, with the largest entry in this column; -1 if all are
 * zero. */
static int pivot(lu_system *s, const double *column, long row)
{
    struct {
        double size;
        int row;
    } best = {0.0, -1};

    for (long i = owned(row, s->block, s->grid_row, s->grid_rows); i < s->rows; i++)
        if (fabs(column[i]) > best.size) {
            best.size = fabs(column[i]);
            best.row = (int)lu_row(s, i);
        }
    MPI_Allreduce(MPI_IN_PLACE, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, s->column);
    return best.size > 0.0 ? best.row : -1;
}

/* Factors the columns of block k, which this grid column has.  Returns 0 if
 * there is no pivot. */
static int factor_panel(lu_system *s, long k)
{
    long begin = columns_before(s, k), end = begin + width(s, k);

    for (long j = begin; j < end; j++) {
        long row = k * s->block + j - begin;
        double *column = s->matrix + j * s->rows;
        int found = pivot(s, column, row), owner = row_owner(s, row);

        s->pivots[j - begin] = found;
        if (found < 0)
            return 0;
        swap_rows(s, row, found, begin, end);
        if (s->grid_row == owner)
            for (long c = j; c < end; c++)
                s->upper[c - j] = s->matrix[c * s->rows + local_row(s, row)];
        MPI_Bcast(s->upper, (int)(end - j), MPI_DOUBLE, owner, s->column);

        long below = owned(row + 1, s->block, s->grid_row, s->grid_rows);
        for (long i = below; i < s->rows; i++)
            column[i] /= s->upper[0];
        for (long c = j + 1; c < end; c++) {
            double *target = s->matrix + c * s->rows, factor = s->upper[c - j];
#pragma omp simd
            for (long i = below; i < s->rows; i++)
                target[i] -= column[i] * factor;
        }
    }
    return 1;
}

/* Sends the factored columns of block k, from its own rows on, to all of this grid
 * row.  They are in `panel` afterwards, each with `rows` rows. */
static void share_panel(lu_system *s, long k, long first, long rows)
{
    int owner = (int)(k % s->grid_columns);

    if (s->grid_column == owner) {
        const double *from = s->matrix + columns_before(s, k) * s->rows + first;
        for (long j = 0; j < width(s, k); j++)
            memcpy(s->panel + j * rows, from + j * s->rows, (size_t)rows * sizeof(double));
    }
    MPI_Bcast(s->panel, (int)(rows * width(s, k)), MPI_DOUBLE, owner, s->row);
}

/* Eliminates the rows of block k in the columns from `begin` on, and sends them to
 * all of this grid column.  They are in `upper` afterwards. */
static void share_upper(lu_system *s, long k, long first, long rows, long begin)
{
    int owner = (int)(k % s->grid_rows);
    long count = s->columns + 1 - begin, high = width(s, k);

    if (s->grid_row == owner)
        for (long j = 0; j < count; j++) {
            double *column = s->matrix + (begin + j) * s->rows + first;
            for (long l = 0; l < high; l++)
                for (long i = l + 1; i < high; i++)
                    column[i] -= s->panel[l * rows + i] * column[l];
            memcpy(s->upper + j * high, column, (size_t)high * sizeof(double));
        }
    MPI_Bcast(s->upper, (int)(count * high), MPI_DOUBLE, owner, s->column);
}

/* Subtracts the product of `panel` and `upper` from the rest of the matrix, which
 * takes most of the time.  The first `skip` rows of the panel are not below block
 * k. */
static void update(lu_system *s, long k, long first, long rows, long skip, long begin)
{
    long high = width(s, k), count = rows - skip;

    for (long j = begin; j <= s->columns; j++) {
        double *restrict target = s->matrix + j * s->rows + first + skip;
        const double *factor = s->upper + (j - begin) * high, *panel = s->panel + skip;
        long l = 0;
        for (; l + 4 <= high; l += 4) {
            const double *p0 = panel + l * rows, *p1 = p0 + rows, *p2 = p1 + rows, *p3 = p2 + rows;
            double f0 = factor[l], f1 = factor[l + 1], f2 = factor[l + 2], f3 = factor[l + 3];
#pragma omp simd
            for (long i = 0; i < count; i++)
                target[i] -= (p0[i] * f0 + p1[i] * f1) + (p2[i] * f2 + p3[i] * f3);
        }
        for (; l < high; l++)
            for (long i = 0; i < count; i++)
                target[i] -= panel[l * rows + i] * factor[l];
    }
}

/* Solves with the upper triangle, the last block first. */
static void substitute(lu_system *s, double *solution)
{
    double *sum = s->upper; /* room for two times a block */
    const double *right = s->matrix + s->columns * s->rows;

    for (long k = (s->order - 1) / s->block; k >= 0; k--) {
        long high = width(s, k), first = rows_before(s, k), begin = columns_before(s, k + 1);
        int owner_row = (int)(k % s->grid_rows), owner_column = (int)(k % s->grid_columns);
        double *x = solution + k * s->block;

        if (s->grid_row == owner_row) {
            for (long i = 0; i < high; i++) {
                sum[i] = 0.0;
                for (long j = begin; j < s->columns; j++)
                    sum[i] += s->matrix[j * s->rows + first + i] * solution[lu_column(s, j)];
            }
            MPI_Reduce(s->grid_column == owner_column ? MPI_IN_PLACE : sum, sum, (int)high, MPI_DOUBLE, MPI_SUM,
                       owner_column, s->row);
            if (s->grid_column == owner_column) {
                const double *block = s->matrix + columns_before(s, k) * s->rows + first;
                for (long i = high - 1; i >= 0; i--) {
                    x[i] = right[first + i] - sum[i];
                    for (long j = i + 1; j < high; j++)
                        x[i] -= block[j * s->rows + i] * x[j];
                    x[i] /= block[i * s->rows + i];
                }
            }
            MPI_Bcast(x, (int)high, MPI_DOUBLE, owner_column, s->row);
        }
        MPI_Bcast(x, (int)high, MPI_DOUBLE, owner_row, s->column);
    }
}

int lu_solve(lu_system *s, double *solution)
{
    for (long k = 0; k * s->block < s->order; k++) {
        int owner = (int)(k % s->grid_columns), is_regular = 1;
        long first = rows_before(s, k), rows = s->rows - first, begin = columns_before(s, k + 1);
        long skip = s->grid_row == k % s->grid_rows ? width(s, k) : 0;

        if (s->grid_column == owner)
            is_regular = factor_panel(s, k);
        MPI_Bcast(&is_regular, 1, MPI_INT, owner, s->row);
        if (!is_regular)
            return 0;
        MPI_Bcast(s->pivots, (int)width(s, k), MPI_INT, owner, s->row);
        for (long j = 0; j < width(s, k); j++)
            swap_rows(s, k * s->block + j, s->pivots[j], begin, s->columns + 1);
        share_panel(s, k, first, rows);
        share_upper(s, k, first, rows, begin);
        update(s, k, first, rows, skip, begin);
    }
    substitute(s, solution);
    return 1;
}
