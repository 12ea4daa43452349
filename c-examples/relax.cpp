// relax: Jacobi iterations on a plate, with the skeleton in supersteps.hpp.
//
//   mpirun -n 4 relax NX NY STEPS [OUTPUT] [options]
//
//   OUTPUT        file for the final field: a line of text with its shape, then
//                 the rows as doubles
//   --by WHAT     each rank has a strip of `rows` (default), or a `block`
//   --shift K     every K steps the work is redistributed
//   --pace M      at most M partners at a time (default: all)
//   --by-hand     without the skeleton: a hand-written loop, for strips of rows
//   --times       print the time of the steps
//
// The output depends on NX, NY and STEPS only. There is no collective in the loop:
// without the point after each superstep, no checkpoint would be taken at a place
// of the program's choice.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <mpi.h>

#include "supersteps.hpp"

namespace {

using supersteps::Box;
using Field = supersteps::Array<double, 2>;

struct Options {
    long nx = 0, ny = 0, steps = 0, shift = 0;
    int pace = 0;
    bool blocks = false, by_hand = false, times = false;
    std::string output;
};

Options parse(int argc, char **argv)
{
    Options options;
    std::vector<std::string> plain;
    for (int i = 1; i < argc; i++) {
        std::string argument = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
        if (argument == "--by" && (value == "rows" || value == "block"))
            options.blocks = value == "block", i++;
        else if (argument == "--shift" && (options.shift = std::atol(value.c_str())) > 0)
            i++;
        else if (argument == "--pace" && (options.pace = std::atoi(value.c_str())) > 0)
            i++;
        else if (argument == "--by-hand")
            options.by_hand = true;
        else if (argument == "--times")
            options.times = true;
        else
            plain.push_back(argument);
    }
    if (plain.size() == 4)
        options.output = plain[3];
    else if (plain.size() != 3)
        throw std::invalid_argument("three or four arguments are wanted");
    options.nx = std::atol(plain[0].c_str());
    options.ny = std::atol(plain[1].c_str());
    options.steps = std::atol(plain[2].c_str());
    if (options.nx < 1 || options.ny < 1 || options.steps < 0 ||
        (options.by_hand && (options.blocks || options.shift > 0)))
        throw std::invalid_argument("these numbers or options make no sense");
    return options;
}

// A number in [0, 1) that depends on the cell alone.
double noise(long row, long column)
{
    unsigned long long x =
        static_cast<unsigned long long>(row) * 0x9e3779b97f4a7c15ull + static_cast<unsigned long long>(column);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return static_cast<double>((x ^ (x >> 31)) >> 11) / 9007199254740992.0;
}

// The new values of adjacent cells; all pointers are at the first one's column.
void relax_row(const double *above, const double *here, const double *below, double *out, long count)
{
    for (long c = 0; c < count; c++)
        out[c] = 0.25 * (above[c] + below[c] + here[c - 1] + here[c + 1]);
}

class Relax {
public:
    using array = Field;

    Relax(const Options &options, int size) : options_(options), whole_{{0, 0}, {options.ny, options.nx}}
    {
        int dims[2] = {0, options.blocks ? 0 : 1};
        MPI_Dims_create(size, 2, dims);
        rows_ = dims[0];
        columns_ = dims[1];
    }

    const Box<2> &whole() const { return whole_; }

    Box<2> possessed(int rank, int, long step) const
    {
        auto [left, right] = supersteps::share(options_.nx, rank % columns_, columns_);
        return {{cut(rank / columns_, step), left}, {cut(rank / columns_ + 1, step), right}};
    }

    Box<2> needed(int rank, int size, long step) const { return possessed(rank, size, step).grown(1, whole_); }

    bool communicates(long) const { return true; }

    void initialise(Field &field) const
    {
        const Box<2> &box = field.box();
        for (long r = box.lo[0]; r < box.hi[0]; r++)
            for (long c = box.lo[1]; c < box.hi[1]; c++)
                field.at({r, c}) = noise(r, c);
    }

    // The rim of the plate stays as it is.
    void calculate(const Field &read, Field &write, long step) const
    {
        int rank;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        Box<2> own = possessed(rank, 0, step);
        const long begin = std::max(own.lo[1], 1L), end = std::min(own.hi[1], options_.nx - 1);
        for (long r = own.lo[0]; r < own.hi[0]; r++) {
            const bool is_rim = r == 0 || r == options_.ny - 1;
            for (long c : {own.lo[1], own.hi[1] - 1})
                if (is_rim || c == 0 || c == options_.nx - 1)
                    write.at({r, c}) = read.at({r, c});
            if (begin >= end)
                continue;
            const double *here = &read.at({r, begin});
            double *out = &write.at({r, begin});
            if (is_rim)
                std::copy(here, here + (end - begin), out);
            else
                relax_row(here - read.stride(0), here, here + read.stride(0), out, end - begin);
        }
    }

private:
    // Start of row `part` of the blocks. If work is redistributed, it moves to and
    // fro by a quarter of a part.
    long cut(int part, long step) const
    {
        long at = options_.ny * part / rows_;
        if (options_.shift > 0 && part > 0 && part < rows_)
            at += (step / options_.shift % 3 - 1) * (options_.ny / rows_ / 4);
        return at;
    }

    Options options_;
    Box<2> whole_;
    int rows_, columns_;
};

// The iterations for strips of rows, written for this program alone.
Field by_hand(const Relax &kernel, const Options &options, int rank, int size)
{
    Field field;
    field.reshape(kernel.needed(rank, size, 0));
    kernel.initialise(field);
    const Box<2> own = kernel.possessed(rank, size, 0);
    const long nx = options.nx, rows = own.extent(0), above = own.lo[0] > 0;
    const int up = rank > 0 ? rank - 1 : MPI_PROC_NULL, down = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    std::vector<double> now(field.data(), field.data() + field.bytes() / sizeof(double)), next(now);
    for (long step = 0; step < options.steps; step++) {
        for (long r = 0; r < rows; r++) {
            const double *here = now.data() + (r + above) * nx;
            double *out = next.data() + (r + above) * nx;
            if (own.lo[0] + r == 0 || own.lo[0] + r == options.ny - 1)
                continue;
            relax_row(here + 1 - nx, here + 1, here + 1 + nx, out + 1, nx - 2);
            out[0] = here[0];
            out[nx - 1] = here[nx - 1];
        }
        double *first = next.data() + above * nx, *last = first + (rows - 1) * nx;
        const int count = static_cast<int>(nx);
        MPI_Request requests[4];
        MPI_Irecv(first - above * nx, up == MPI_PROC_NULL ? 0 : count, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(last + nx, down == MPI_PROC_NULL ? 0 : count, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, &requests[1]);
        MPI_Issend(first, count, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, &requests[2]);
        MPI_Issend(last, count, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        now.swap(next);
    }
    std::copy(now.begin(), now.end(), field.data());
    return field;
}

// Rank 0 receives every rank's part, and writes all.
void write(const Relax &kernel, const Options &options, const Field &field, int rank, int size)
{
    Field part;
    part.reshape(kernel.possessed(rank, size, options.steps));
    part.copy(field);
    if (rank != 0) {
        MPI_Send(part.data(), static_cast<int>(part.bytes()), MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        return;
    }
    Field all;
    all.reshape(kernel.whole());
    all.copy(part);
    for (int other = 1; other < size; other++) {
        part.reshape(kernel.possessed(other, size, options.steps));
        MPI_Recv(part.data(), static_cast<int>(part.bytes()), MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        all.copy(part);
    }
    std::ofstream out(options.output, std::ios::binary);
    out << "relax " << options.nx << " " << options.ny << " " << options.steps << "\n";
    out.write(reinterpret_cast<const char *>(all.data()), static_cast<std::streamsize>(all.bytes()));
    out.close();
    if (!out) {
        std::perror(options.output.c_str());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

} // namespace

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    Options options;
    try {
        options = parse(argc, argv);
    } catch (const std::exception &error) {
        if (rank == 0)
            std::cerr << "relax: " << error.what()
                      << "\nusage: relax NX NY STEPS [OUTPUT] [--by rows|block] [--shift K] [--pace M] [--by-hand] [--times]\n";
        MPI_Finalize();
        return 2;
    }
    {
        Relax kernel(options, size);
        double begin = MPI_Wtime();
        Field field = options.by_hand ? by_hand(kernel, options, rank, size)
                                      : supersteps::run(kernel, 0, options.steps, MPI_COMM_WORLD, options.pace);
        if (options.times && rank == 0)
            std::cout << "steps " << MPI_Wtime() - begin << "\n";
        if (!options.output.empty())
            write(kernel, options, field, rank, size);
        if (rank == 0)
            std::cout << "relax: done" << std::endl;
    }
    MPI_Finalize();
}
