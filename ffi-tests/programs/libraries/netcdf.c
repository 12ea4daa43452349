/*
 * Parallel netCDF: a variable that grows along an unlimited dimension and is written
 * collectively; one of fixed size, of which each process writes its part independently.
 * Each process reads data that another one has written. In the middle, the file is
 * closed and reopened. Arguments: number of steps, microseconds of sleep in each.
 */
#include <mpi.h>
#include <netcdf.h>
#include <netcdf_par.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK(call) check(call, __LINE__)

enum { ROWS = 16, COLUMNS = 40 };

static const char *const NAME = "grown.nc";

struct output {
    int file, field, sums;
};

static void check(int status, int line)
{
    if (status != NC_NOERR) {
        fprintf(stderr, "line %d fails: %s\n", line, nc_strerror(status));
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

static void set_access(const struct output *output)
{
    CHECK(nc_var_par_access(output->file, output->field, NC_COLLECTIVE));
    CHECK(nc_var_par_access(output->file, output->sums, NC_INDEPENDENT));
}

static struct output create(int size, int steps)
{
    struct output output;
    int dims[3], sums[2];
    CHECK(nc_create_par(NAME, NC_CLOBBER | NC_NETCDF4, MPI_COMM_WORLD, MPI_INFO_NULL, &output.file));
    CHECK(nc_def_dim(output.file, "time", NC_UNLIMITED, &dims[0]));
    CHECK(nc_def_dim(output.file, "row", (size_t)size * ROWS, &dims[1]));
    CHECK(nc_def_dim(output.file, "column", COLUMNS, &dims[2]));
    CHECK(nc_def_dim(output.file, "step", steps, &sums[0]));
    CHECK(nc_def_dim(output.file, "process", size, &sums[1]));
    CHECK(nc_def_var(output.file, "field", NC_DOUBLE, 3, dims, &output.field));
    CHECK(nc_def_var(output.file, "sums", NC_DOUBLE, 2, sums, &output.sums));
    CHECK(nc_put_att_text(output.file, output.field, "units", 1, "K"));
    CHECK(nc_enddef(output.file));
    set_access(&output);
    return output;
}

static struct output reopen(struct output output)
{
    CHECK(nc_close(output.file));
    CHECK(nc_open_par(NAME, NC_WRITE, MPI_COMM_WORLD, MPI_INFO_NULL, &output.file));
    CHECK(nc_inq_varid(output.file, "field", &output.field));
    CHECK(nc_inq_varid(output.file, "sums", &output.sums));
    set_access(&output);
    return output;
}

static void write_step(struct output output, int step, int rank, int size, double carry, double sum)
{
    static double plane[ROWS * COLUMNS], other[ROWS * COLUMNS];
    size_t start[3] = {step, (size_t)rank * ROWS, 0}, count[3] = {1, ROWS, COLUMNS}, place[2] = {step, rank};
    for (int i = 0; i < ROWS * COLUMNS; i++)
        plane[i] = carry * (i + 1) / 7 + rank + step;
    CHECK(nc_put_vara_double(output.file, output.field, start, count, plane));
    CHECK(nc_put_var1_double(output.file, output.sums, place, &sum));
    CHECK(nc_sync(output.file));
    MPI_Barrier(MPI_COMM_WORLD);
    int next = (rank + 1) % size;
    start[1] = (size_t)next * ROWS;
    CHECK(nc_get_vara_double(output.file, output.field, start, count, other));
    for (int i = 0; i < ROWS * COLUMNS; i++)
        if (other[i] != carry * (i + 1) / 7 + next + step) {
            fprintf(stderr, "rank %d has read %g in step %d\n", rank, other[i], step);
            MPI_Abort(MPI_COMM_WORLD, 4);
        }
}

int main(int argc, char **argv)
{
    int rank, size, steps = argc > 1 ? atoi(argv[1]) : 40;
    int sleep = argc > 2 ? atoi(argv[2]) : 5000;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    struct output output = create(size, steps);

    double carry = 1;
    for (int step = 0; step < steps; step++) {
        double sum = carry / (rank + 1) + step, all;
        MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        write_step(output, step, rank, size, carry, sum);
        carry = all / (all + 1 + step);
        if (step == steps / 2)
            output = reopen(output);
        if (rank == 0) {
            printf("step %d: %.17g\n", step, all);
            fflush(stdout);
        }
        usleep(sleep);
    }
    CHECK(nc_close(output.file));
    MPI_Finalize();
    return 0;
}
