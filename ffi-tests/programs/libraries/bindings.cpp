/*
 * The C++ bindings of MPI 2, which Open MPI 4 still has: an operator of the program, a
 * grid, a communicator for each row, a window. With argv[1] "throws", an error must
 * become an exception.
 */
#include <cstdio>
#include <cstring>
#include <mpi.h>
#include <unistd.h>

static void product(const void *in, void *inout, int count, const MPI::Datatype &type)
{
    auto *mine = static_cast<const double *>(in);
    auto *theirs = static_cast<double *>(inout);
    if (type != MPI::DOUBLE)
        MPI::COMM_WORLD.Abort(5);
    for (int i = 0; i < count; i++)
        theirs[i] = theirs[i] * mine[i] / 3 + 1e-3 * i;
}

int main(int argc, char **argv)
{
    MPI::Init(argc, argv);
    int rank = MPI::COMM_WORLD.Get_rank(), size = MPI::COMM_WORLD.Get_size();
    if (argc > 1 && std::strcmp(argv[1], "throws") == 0) {
        MPI::COMM_WORLD.Set_errhandler(MPI::ERRORS_THROW_EXCEPTIONS);
        MPI::COMM_WORLD.Send(&rank, 1, MPI::INT, size + 7, 0);
    }

    MPI::Op op;
    op.Init(product, true);
    int dims[] = {2, size / 2};
    bool periods[] = {true, false}, kept[] = {false, true};
    MPI::Cartcomm grid = MPI::COMM_WORLD.Create_cart(2, dims, periods, false);
    MPI::Cartcomm row = grid.Sub(kept);
    double shared = rank + 1, value = 1;
    MPI::Win window = MPI::Win::Create(&shared, sizeof shared, sizeof shared, MPI::INFO_NULL, MPI::COMM_WORLD);
    for (int round = 0; round < 50; round++) {
        double mine[2] = {value + rank + 1, 2.0 + rank * round % 7}, all[2], rows[2], other;
        MPI::COMM_WORLD.Allreduce(mine, all, 2, MPI::DOUBLE, op);
        row.Allreduce(mine, rows, 2, MPI::DOUBLE, MPI::SUM);
        int from, to;
        grid.Shift(0, 1, from, to);
        MPI::Status status;
        grid.Sendrecv(rows, 1, MPI::DOUBLE, to, 4, &other, 1, MPI::DOUBLE, from, MPI::ANY_TAG, status);
        window.Fence(0);
        window.Put(&other, 1, MPI::DOUBLE, (rank + 1) % size, 0, 1, MPI::DOUBLE);
        window.Fence(0);
        value = 1 + (all[0] + all[1] + shared) / (1 + round + all[0]);
        if (rank == 0) {
            std::printf("round %d: %.17g %.17g %d\n", round, value, shared, status.Get_count(MPI::DOUBLE) + status.Get_tag());
            std::fflush(stdout);
        }
        usleep(5000);
    }
    window.Free();
    row.Free();
    grid.Free();
    op.Free();
    MPI::Finalize();
}
