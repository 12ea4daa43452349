// sem: implicit time steps of the heat equation with spectral elements.
//
//   mpirun -n 4 sem EX EY DEGREE STEPS [OUTPUT] [options]
//
//   EX EY                elements in each direction
//   DEGREE               degree of the polynomials in an element
//   OUTPUT               file for the final solution, as text
//   --print-every K      print every K-th step (default: 1)
//   --tolerance T        relative residual at which a solve ends (default: 1e-10)
//
// Most of the memory is set up once: for each element two dense matrices, its
// operator and the inverse that preconditions the solve, and the tables of the
// gather-scatter library in gs/. Only a few vectors change in time. Rank 0 draws
// the conductivity of each element and broadcasts it. The output depends only on
// the arguments and on the number of ranks.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <mpi.h>

#include "gs.h"

namespace {

using Vector = std::vector<double>;

struct Options {
    long ex = 0, ey = 0;
    int degree = 0, steps = 0, print_every = 1;
    double tolerance = 1e-10;
    std::string output;
};

Options parse(int argc, char **argv)
{
    Options options;
    std::vector<std::string> plain;
    for (int i = 1; i < argc; i++) {
        std::string argument = argv[i];
        if (argument == "--print-every" && i + 1 < argc)
            options.print_every = std::atoi(argv[++i]);
        else if (argument == "--tolerance" && i + 1 < argc)
            options.tolerance = std::atof(argv[++i]);
        else
            plain.push_back(argument);
    }
    if (plain.size() == 5)
        options.output = plain[4];
    else if (plain.size() != 4)
        throw std::invalid_argument("four or five arguments are wanted");
    options.ex = std::atol(plain[0].c_str());
    options.ey = std::atol(plain[1].c_str());
    options.degree = std::atoi(plain[2].c_str());
    options.steps = std::atoi(plain[3].c_str());
    if (options.ex < 1 || options.ey < 1 || options.degree < 1 || options.degree > 40 || options.steps < 1 ||
        options.print_every < 1 || options.tolerance <= 0)
        throw std::invalid_argument("an argument is out of range");
    return options;
}

/// Legendre polynomial of a degree, and its derivative.
std::pair<double, double> legendre(int degree, double x)
{
    double before = 1, now = x;
    if (degree == 0)
        return {1, 0};
    for (int k = 2; k <= degree; k++) {
        double next = ((2 * k - 1) * x * now - (k - 1) * before) / k;
        before = now;
        now = next;
    }
    return {now, degree * (before - x * now) / (1 - x * x)};
}

/// Gauss-Lobatto-Legendre points, weights, and the matrix of derivatives.
struct Rule {
    explicit Rule(int degree) : points(degree + 1), weights(degree + 1), derivative((degree + 1) * (degree + 1))
    {
        const int n = degree + 1;
        points.front() = -1;
        points.back() = 1;
        for (int i = 1; i < degree; i++) {
            double x = -std::cos(M_PI * i / degree);
            for (int step = 0; step < 50; step++) {
                auto [value, slope] = legendre(degree, x);
                double curvature = (2 * x * slope - degree * (degree + 1) * value) / (1 - x * x);
                x -= slope / curvature;
            }
            points[i] = x;
        }
        Vector values(n);
        for (int i = 0; i < n; i++) {
            values[i] = legendre(degree, points[i]).first;
            if (i == 0)
                values[i] = degree % 2 ? -1 : 1;
            if (i == degree)
                values[i] = 1;
            weights[i] = 2.0 / (degree * n * values[i] * values[i]);
        }
        for (int i = 0; i < n; i++) {
            double sum = 0;
            for (int j = 0; j < n; j++)
                if (i != j)
                    sum -= derivative[i * n + j] = values[i] / (values[j] * (points[i] - points[j]));
            derivative[i * n + i] = sum;
        }
    }

    Vector points, weights, derivative;
};

/// Replaces a symmetric positive definite matrix by its inverse (Gauss-Jordan).
void invert(double *a, int n)
{
    for (int k = 0; k < n; k++) {
        double pivot = 1 / a[k * n + k];
        a[k * n + k] = 1;
        for (int j = 0; j < n; j++)
            a[k * n + j] *= pivot;
        for (int i = 0; i < n; i++) {
            if (i == k)
                continue;
            double factor = a[i * n + k];
            a[i * n + k] = 0;
            for (int j = 0; j < n; j++)
                a[i * n + j] -= factor * a[k * n + j];
        }
    }
}

class Solver {
public:
    Solver(const Options &options, MPI_Comm comm)
        : options_(options), comm_(comm), side_(options.degree + 1), nodes_(side_ * side_)
    {
        MPI_Comm_rank(comm_, &rank_);
        MPI_Comm_size(comm_, &size_);
        const long all = options_.ex * options_.ey;
        first_ = all * rank_ / size_;
        count_ = all * (rank_ + 1) / size_ - first_;
        if (count_ == 0 && rank_ >= 0)
            throw std::invalid_argument("there are fewer elements than ranks");
        Rule rule(options_.degree);
        number_nodes();
        build_operators(rule, conductivities(all));
        set_initial(rule);
    }

    ~Solver() { gs_free(gs_); }

    void run()
    {
        for (int step = 1; step <= options_.steps; step++) {
            Vector right(u_.size());
            for (size_t i = 0; i < u_.size(); i++)
                right[i] = mass_[i] * u_[i];
            int iterations = solve(right);
            double heat = 0;
            for (size_t i = 0; i < u_.size(); i++)
                heat += mass_local_[i] * u_[i];
            heat = sum(heat);
            if (rank_ == 0 && step % options_.print_every == 0)
                std::cout << "step " << step << "  iterations " << iterations << "  heat " << heat << std::endl;
        }
    }

    void write() const
    {
        std::vector<int> counts(size_), places(size_);
        int own = static_cast<int>(u_.size());
        MPI_Gather(&own, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, comm_);
        for (int i = 1; i < size_; i++)
            places[i] = places[i - 1] + counts[i - 1];
        Vector all(rank_ == 0 ? places.back() + counts.back() : 0);
        MPI_Gatherv(u_.data(), own, MPI_DOUBLE, all.data(), counts.data(), places.data(), MPI_DOUBLE, 0, comm_);
        if (rank_ != 0 || options_.output.empty())
            return;
        std::ofstream file(options_.output);
        file << std::scientific << std::setprecision(15);
        for (double value : all)
            file << value << '\n';
        if (!file.flush())
            throw std::runtime_error("cannot write " + options_.output);
    }

    size_t static_bytes() const { return (operators_.size() + inverses_.size()) * sizeof(double); }

private:
    /// Global ids: nodes on the border of two elements have equal ids.
    void number_nodes()
    {
        const long across = options_.ex * options_.degree + 1;
        std::vector<long long> ids;
        for (long element = first_; element < first_ + count_; element++) {
            const long x = element % options_.ex * options_.degree, y = element / options_.ex * options_.degree;
            for (int j = 0; j < side_; j++)
                for (int i = 0; i < side_; i++)
                    ids.push_back((y + j) * across + x + i + 1);
        }
        gs_ = gs_setup(ids.data(), ids.size(), comm_);
        if (!gs_)
            throw std::runtime_error("the mesh cannot be set up");
        share_.assign(ids.size(), 1);
        gs_op(gs_, share_.data(), GS_SUM);
        for (double &share : share_)
            share = 1 / share;
    }

    Vector conductivities(long all) const
    {
        Vector drawn(all);
        if (rank_ == 0) {
            unsigned state = 12345;
            for (double &value : drawn) {
                state = state * 1664525u + 1013904223u;
                value = 0.5 + (state >> 8) / static_cast<double>(1 << 24);
            }
        }
        MPI_Bcast(drawn.data(), static_cast<int>(all), MPI_DOUBLE, 0, comm_);
        return drawn;
    }

    void build_operators(const Rule &rule, const Vector &conductivity)
    {
        const double dt = 1e-3, hx = 2.0 * options_.ex, hy = 2.0 * options_.ey;
        const size_t block = static_cast<size_t>(nodes_) * nodes_;
        operators_.assign(block * count_, 0);
        inverses_.resize(block * count_);
        mass_local_.resize(static_cast<size_t>(nodes_) * count_);
        const Vector &d = rule.derivative, &w = rule.weights;
        for (long element = 0; element < count_; element++) {
            double *a = &operators_[block * element];
            const double k = conductivity[first_ + element];
            for (int j = 0; j < side_; j++)
                for (int i = 0; i < side_; i++) {
                    const int row = j * side_ + i;
                    for (int l = 0; l < side_; l++) {
                        double along_x = 0, along_y = 0;
                        for (int q = 0; q < side_; q++) {
                            along_x += w[q] * d[q * side_ + i] * d[q * side_ + l];
                            along_y += w[q] * d[q * side_ + j] * d[q * side_ + l];
                        }
                        a[row * nodes_ + j * side_ + l] += k * along_x * w[j] * hx / hy;
                        a[row * nodes_ + l * side_ + i] += k * along_y * w[i] * hy / hx;
                    }
                    const double mass = w[i] * w[j] / (hx * hy);
                    mass_local_[nodes_ * element + row] = mass;
                    a[row * nodes_ + row] += mass / dt;
                }
            std::copy(a, a + block, &inverses_[block * element]);
            invert(&inverses_[block * element], nodes_);
        }
        mass_ = mass_local_;
        gs_op(gs_, mass_.data(), GS_SUM);
        for (double &mass : mass_)
            mass /= dt;
    }

    void set_initial(const Rule &rule)
    {
        for (long element = first_; element < first_ + count_; element++)
            for (int j = 0; j < side_; j++)
                for (int i = 0; i < side_; i++) {
                    double x = (element % options_.ex + 0.5 * (rule.points[i] + 1)) / options_.ex;
                    double y = (element / options_.ex + 0.5 * (rule.points[j] + 1)) / options_.ey;
                    u_.push_back(std::exp(-40 * ((x - 0.3) * (x - 0.3) + (y - 0.6) * (y - 0.6))));
                }
    }

    double sum(double own) const
    {
        double all = 0;
        MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, comm_);
        return all;
    }

    double dot(const Vector &a, const Vector &b) const
    {
        double own = 0;
        for (size_t i = 0; i < a.size(); i++)
            own += share_[i] * a[i] * b[i];
        return sum(own);
    }

    /// `to` = sum over the elements of `matrices` times `from`.
    void apply(const Vector &matrices, const Vector &from, Vector &to) const
    {
        for (long element = 0; element < count_; element++) {
            const double *a = &matrices[static_cast<size_t>(nodes_) * nodes_ * element];
            const double *x = &from[static_cast<size_t>(nodes_) * element];
            double *y = &to[static_cast<size_t>(nodes_) * element];
            for (int i = 0; i < nodes_; i++) {
                double value = 0;
                for (int j = 0; j < nodes_; j++)
                    value += a[i * nodes_ + j] * x[j];
                y[i] = value;
            }
        }
        gs_op(gs_, to.data(), GS_SUM);
    }

    /// Preconditioned conjugate gradients for the next u.
    int solve(const Vector &right)
    {
        const size_t n = u_.size();
        Vector residual(n), direction(n), image(n), better(n);
        apply(operators_, u_, image);
        for (size_t i = 0; i < n; i++)
            residual[i] = right[i] - image[i];
        apply(inverses_, residual, better);
        direction = better;
        double rho = dot(residual, better);
        const double goal = options_.tolerance * std::sqrt(dot(right, right));
        int iterations = 0;
        while (std::sqrt(dot(residual, residual)) > goal) {
            if (++iterations > 1000)
                throw std::runtime_error("the solve does not converge");
            apply(operators_, direction, image);
            const double alpha = rho / dot(direction, image);
            for (size_t i = 0; i < n; i++) {
                u_[i] += alpha * direction[i];
                residual[i] -= alpha * image[i];
            }
            apply(inverses_, residual, better);
            const double next = dot(residual, better);
            for (size_t i = 0; i < n; i++)
                direction[i] = better[i] + next / rho * direction[i];
            rho = next;
        }
        return iterations;
    }

    const Options options_;
    MPI_Comm comm_;
    int rank_ = 0, size_ = 1;
    const int side_, nodes_;
    long first_ = 0, count_ = 0;
    gs_handle *gs_ = nullptr;
    Vector operators_, inverses_, mass_local_, mass_, share_, u_;
};

} // namespace

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank = 0, status = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::cout << std::scientific << std::setprecision(15);
    try {
        Options options = parse(argc, argv);
        Solver solver(options, MPI_COMM_WORLD);
        if (rank == 0)
            std::cout << "sem: " << options.ex << " x " << options.ey << " elements of degree " << options.degree << ", "
                      << solver.static_bytes() << " bytes of operators on rank 0" << std::endl;
        solver.run();
        solver.write();
    } catch (const std::invalid_argument &error) {
        if (rank == 0)
            std::cerr << "sem: " << error.what()
                      << "\nusage: sem EX EY DEGREE STEPS [OUTPUT] [--print-every K] [--tolerance T]\n";
        status = 2;
    } catch (const std::exception &error) {
        std::cerr << "sem: " << error.what() << '\n';
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return status;
}
