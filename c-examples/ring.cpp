// ring: a product of matrices whose second factor moves around a ring, with the
// skeleton in supersteps.hpp.
//
//   mpirun -n 4 ring N ROUNDS [OUTPUT] [--pace M]
//
//   ROUNDS   number of times that C = C/2 + AB is computed
//   OUTPUT   file for C: a line of text with its shape, then its columns as
//            doubles
//
// Each rank has rows of A and C. In each superstep it multiplies with its current
// columns of B, which then move to its neighbour. The kernel only defines which
// rank has which columns in which superstep. There is no collective in the loop.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <mpi.h>

#include "supersteps.hpp"

namespace {

using supersteps::Box;
using supersteps::Order;

// Columns of a matrix are adjacent in memory.
using Columns = supersteps::Array<double, 2, Order::first_first>;

double element(long row, long column, long which)
{
    return static_cast<double>((row * 31 + column * 17 + which * 7) % 101) / 101.0 - 0.5;
}

class Product {
public:
    using array = Columns;

    Product(long n, int rank, int size) : n_(n), size_(size)
    {
        auto [lo, hi] = supersteps::share(n, rank, size);
        rows_ = hi - lo;
        left_.resize(static_cast<std::size_t>(rows_ * n));
        result_.resize(left_.size());
        for (long k = 0; k < n; k++)
            for (long i = 0; i < rows_; i++)
                left_[k * rows_ + i] = element(lo + i, k, 1);
    }

    // The columns of this rank in this superstep; they come from the next rank.
    Box<2> possessed(int rank, int size, long step) const
    {
        auto [lo, hi] = supersteps::share(n_, static_cast<int>((rank + step) % size), size);
        return {{0, lo}, {n_, hi}};
    }

    Box<2> needed(int rank, int size, long step) const { return possessed(rank, size, step); }

    bool communicates(long) const { return true; }

    void initialise(Columns &right) const
    {
        for (long j = right.box().lo[1]; j < right.box().hi[1]; j++)
            for (long k = 0; k < n_; k++)
                right.at({k, j}) = element(k, j, 2);
    }

    void calculate(const Columns &read, Columns &write, long step)
    {
        const Box<2> &strip = read.box();
        if (step % size_ == 0)
            for (double &value : result_)
                value *= 0.5;
        for (long j = 0; j < strip.extent(1); j++) {
            double *out = result_.data() + (strip.lo[1] + j) * rows_;
            for (long k = 0; k < n_; k++) {
                const double factor = read(k, j), *column = left_.data() + k * rows_;
                for (long i = 0; i < rows_; i++)
                    out[i] += column[i] * factor;
            }
        }
        write.copy(read);
    }

    // The rows of C, as columns of this rank's part.
    const std::vector<double> &result() const { return result_; }

private:
    long n_, rows_;
    int size_;
    std::vector<double> left_, result_;
};

// Rank 0 receives every rank's rows, and writes all.
bool write(const std::string &path, const std::vector<double> &mine, long n, int rank, int size)
{
    std::vector<int> counts(size), places(size);
    for (int r = 0; r < size; r++) {
        auto [lo, hi] = supersteps::share(n, r, size);
        counts[r] = static_cast<int>((hi - lo) * n);
        places[r] = static_cast<int>(lo * n);
    }
    std::vector<double> all(rank == 0 ? n * n : 0);
    MPI_Gatherv(mine.data(), counts[rank], MPI_DOUBLE, all.data(), counts.data(), places.data(), MPI_DOUBLE, 0,
                MPI_COMM_WORLD);
    if (rank != 0)
        return true;
    std::ofstream out(path, std::ios::binary);
    out << "ring " << n << " " << n << "\n";
    for (long j = 0; j < n; j++)
        for (int r = 0; r < size; r++) {
            long rows = counts[r] / n;
            out.write(reinterpret_cast<const char *>(all.data() + places[r] + j * rows),
                      static_cast<std::streamsize>(rows * sizeof(double)));
        }
    out.close();
    if (!out)
        std::perror(path.c_str());
    return !out.fail();
}

} // namespace

int main(int argc, char **argv)
{
    int rank, size, pace = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    std::vector<std::string> plain;
    for (int i = 1; i < argc; i++)
        if (std::string(argv[i]) == "--pace" && i + 1 < argc)
            pace = std::atoi(argv[++i]);
        else
            plain.push_back(argv[i]);
    const long n = plain.size() >= 2 ? std::atol(plain[0].c_str()) : 0;
    const long rounds = n > 0 ? std::atol(plain[1].c_str()) : 0;
    if (n < 1 || rounds < 1 || plain.size() > 3) {
        if (rank == 0)
            std::cerr << "usage: ring N ROUNDS [OUTPUT] [--pace M]\n";
        MPI_Finalize();
        return 2;
    }
    Product kernel(n, rank, size);
    supersteps::run(kernel, 0, rounds * size, MPI_COMM_WORLD, pace);
    bool ok = plain.size() < 3 || write(plain[2], kernel.result(), n, rank, size);
    if (rank == 0 && ok)
        std::cout << "ring: done" << std::endl;
    MPI_Finalize();
    return ok ? 0 : 1;
}
