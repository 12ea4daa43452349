/*
 * Parallel HDF5: a dataset in chunks that grows by a plane in each step and is written
 * collectively; one of fixed size, of which each process writes its part independently;
 * attributes. Each process reads data that another one has written. In the middle, the
 * file is closed and reopened. Arguments: number of steps, microseconds of sleep in
 * each.
 */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void check(hid_t answer, int line)
{
    if (answer < 0) {
        fprintf(stderr, "line %d fails\n", line);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

#define CHECK(call) check(call, __LINE__)

enum { ROWS = 24, COLUMNS = 40 };

static hid_t untimed(int chunked)
{
    hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    hsize_t chunk[3] = {1, 16, 20};
    CHECK(H5Pset_obj_track_times(list, 0));
    if (chunked)
        CHECK(H5Pset_chunk(list, 3, chunk));
    return list;
}

int main(int argc, char **argv)
{
    int rank, size, steps = argc > 1 ? atoi(argv[1]) : 40;
    int sleep = argc > 2 ? atoi(argv[2]) : 5000;
    const char *name = "grown.h5";
    static double plane[ROWS * COLUMNS], other[ROWS * COLUMNS];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    CHECK(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL));
    hid_t collective = H5Pcreate(H5P_DATASET_XFER), independent = H5Pcreate(H5P_DATASET_XFER);
    CHECK(H5Pset_dxpl_mpio(collective, H5FD_MPIO_COLLECTIVE));
    CHECK(H5Pset_dxpl_mpio(independent, H5FD_MPIO_INDEPENDENT));
    hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    CHECK(file);
    hsize_t dims[3] = {0, (hsize_t)size * ROWS, COLUMNS}, most[3] = {H5S_UNLIMITED, (hsize_t)size * ROWS, COLUMNS};
    hid_t space = H5Screate_simple(3, dims, most), list = untimed(1);
    hid_t field = H5Dcreate2(file, "field", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, list, H5P_DEFAULT);
    CHECK(field);
    H5Sclose(space);
    H5Pclose(list);
    hsize_t length = (hsize_t)size * steps;
    space = H5Screate_simple(1, &length, NULL);
    list = untimed(0);
    hid_t sums = H5Dcreate2(file, "sums", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, list, H5P_DEFAULT);
    CHECK(sums);
    H5Sclose(space);

    double carry = 1;
    for (int step = 0; step < steps; step++) {
        double sum = 0, all, carried = carry;
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            plane[i] = carry * (i + 1) / 7 + rank + step;
            sum += plane[i];
        }
        MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        carry = all / (all + 1 + step);

        dims[0] = step + 1;
        CHECK(H5Dset_extent(field, dims));
        space = H5Dget_space(field);
        hsize_t start[3] = {step, (hsize_t)rank * ROWS, 0}, count[3] = {1, ROWS, COLUMNS};
        CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL));
        hid_t memory = H5Screate_simple(3, count, NULL);
        CHECK(H5Dwrite(field, H5T_NATIVE_DOUBLE, memory, space, collective, plane));

        /* Each process independently reads the data of the next one. */
        start[1] = (hsize_t)((rank + 1) % size) * ROWS;
        CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL));
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK(H5Dread(field, H5T_NATIVE_DOUBLE, memory, space, step % 2 ? collective : independent, other));
        for (int i = 0; i < ROWS * COLUMNS; i++)
            if (other[i] != carried * (i + 1) / 7 + (rank + 1) % size + step) {
                fprintf(stderr, "rank %d has read %g in step %d\n", rank, other[i], step);
                MPI_Abort(MPI_COMM_WORLD, 4);
            }
        H5Sclose(memory);
        H5Sclose(space);

        hsize_t at = (hsize_t)step * size + rank, one = 1;
        space = H5Dget_space(sums);
        CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, &at, NULL, &one, NULL));
        memory = H5Screate_simple(1, &one, NULL);
        CHECK(H5Dwrite(sums, H5T_NATIVE_DOUBLE, memory, space, independent, &sum));
        H5Sclose(memory);
        H5Sclose(space);

        if (step % 8 == 0) {
            char label[32];
            snprintf(label, sizeof label, "step %d", step);
            hid_t scalar = H5Screate(H5S_SCALAR);
            hid_t attribute = H5Acreate2(field, label, H5T_NATIVE_DOUBLE, scalar, H5P_DEFAULT, H5P_DEFAULT);
            CHECK(attribute);
            CHECK(H5Awrite(attribute, H5T_NATIVE_DOUBLE, &all));
            H5Aclose(attribute);
            H5Sclose(scalar);
        }
        if (step % 5 == 4)
            CHECK(H5Fflush(file, H5F_SCOPE_GLOBAL));
        if (step == steps / 2) {
            H5Dclose(field);
            H5Dclose(sums);
            H5Fclose(file);
            file = H5Fopen(name, H5F_ACC_RDWR, access);
            CHECK(file);
            field = H5Dopen2(file, "field", H5P_DEFAULT);
            sums = H5Dopen2(file, "sums", H5P_DEFAULT);
        }
        if (rank == 0) {
            printf("step %d: %.17g\n", step, all);
            fflush(stdout);
        }
        usleep(sleep);
    }
    H5Dclose(field);
    H5Dclose(sums);
    H5Fclose(file);
    MPI_Finalize();
    return 0;
}
