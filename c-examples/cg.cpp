// cg: implicit time steps of the heat equation on a finite-element mesh, each
// solved by conjugate gradients.
//
//   mpirun -n 4 cg NX NY STEPS [OUTPUT] [options]
//
//   OUTPUT               file for the final solution, as text
//   --max-iterations N   budget of one CG solve (default: 60); a step that
//                        needs more is thrown away and tried again with half
//                        the time step
//   --tolerance T        relative residual at which a solve ends (default: 1e-10)
//   --io-group N         ranks per I/O group (default: 2)
//   --print-every K      print the residual every K iterations (default: 20)
//
// Rank 0 generates a mesh of NX x NY quadrilaterals with scrambled vertex numbers
// and distributes its elements. Every rank assembles the sparse matrix of its own
// elements. The gather-scatter library in gs/ finds the vertices that ranks share,
// and sums over them. The output depends only on the arguments and on the number of
// ranks.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <mpi.h>

#include "gs.h"

namespace {

using Vector = std::vector<double>;

struct UsageError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Thrown by a solve that has used up its iterations.
class NotConverged : public std::runtime_error {
public:
    NotConverged(int iterations, double residual)
        : std::runtime_error("no convergence"), iterations_(iterations), residual_(residual) {}
    int iterations() const { return iterations_; }
    double residual() const { return residual_; }

private:
    int iterations_;
    double residual_;
};

struct Options {
    int nx = 0, ny = 0, steps = 0;
    std::string output;
    int max_iterations = 60;
    double tolerance = 1e-10;
    int io_group = 2;
    int print_every = 20;
};

template <typename T>
T parse_number(const std::string &text, T least) {
    std::istringstream in(text);
    T value{};
    if (!(in >> value) || !in.eof() || value < least)
        throw UsageError("not a usable number: '" + text + "'");
    return value;
}

Options parse(const std::vector<std::string> &arguments) {
    Options o;
    std::vector<std::string> positional;
    for (std::size_t i = 0; i < arguments.size(); i++) {
        const std::string &a = arguments[i];
        auto value = [&]() -> const std::string & {
            if (i + 1 == arguments.size())
                throw UsageError(a + " needs a value");
            return arguments[++i];
        };
        if (a == "--max-iterations")
            o.max_iterations = parse_number(value(), 1);
        else if (a == "--tolerance")
            o.tolerance = parse_number(value(), 1e-15);
        else if (a == "--io-group")
            o.io_group = parse_number(value(), 1);
        else if (a == "--print-every")
            o.print_every = parse_number(value(), 1);
        else if (!a.empty() && a[0] == '-')
            throw UsageError("unknown option " + a);
        else
            positional.push_back(a);
    }
    if (positional.size() < 3 || positional.size() > 4)
        throw UsageError("usage: cg NX NY STEPS [OUTPUT] [--max-iterations N] [--tolerance T] [--io-group N] "
                         "[--print-every K]");
    o.nx = parse_number(positional[0], 1);
    o.ny = parse_number(positional[1], 1);
    o.steps = parse_number(positional[2], 0);
    if (positional.size() == 4)
        o.output = positional[3];
    return o;
}

// ---------------------------------------------------------------------------
// The mesh

struct Element {
    std::array<long long, 4> vertex; // global ids, counter-clockwise, from 1 up
    std::array<double, 4> x, y;
    double conductivity;
};

std::uint64_t mix(std::uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

double unit(std::uint64_t x) { return static_cast<double>(mix(x) >> 11) / 9007199254740992.0; }

/// All elements: a slightly distorted grid whose vertices are numbered at random.
std::vector<Element> generate_mesh(int nx, int ny) {
    const long long columns = nx + 1, vertices = columns * (ny + 1);
    std::vector<long long> id(static_cast<std::size_t>(vertices));
    for (long long v = 0; v < vertices; v++)
        id[v] = v + 1;
    for (long long v = vertices - 1; v > 0; v--)
        std::swap(id[v], id[mix(0x5eed0000ull + v) % (v + 1)]);

    std::vector<Element> elements;
    elements.reserve(static_cast<std::size_t>(nx) * ny);
    for (int j = 0; j < ny; j++)
        for (int i = 0; i < nx; i++) {
            Element e{};
            const int corner[4][2] = {{i, j}, {i + 1, j}, {i + 1, j + 1}, {i, j + 1}};
            for (int k = 0; k < 4; k++) {
                const int ci = corner[k][0], cj = corner[k][1];
                const long long v = cj * columns + ci;
                const bool rim = ci == 0 || ci == nx || cj == 0 || cj == ny;
                e.vertex[k] = id[v];
                e.x[k] = (ci + (rim ? 0.0 : 0.4 * (unit(2 * v) - 0.5))) / nx;
                e.y[k] = (cj + (rim ? 0.0 : 0.4 * (unit(2 * v + 1) - 0.5))) / ny;
            }
            const double cx = (i + 0.5) / nx - 0.5, cy = (j + 0.5) / ny - 0.5;
            e.conductivity = cx * cx + cy * cy < 0.04 ? 10.0 : 1.0;
            elements.push_back(e);
        }
    return elements;
}

/// Rank 0 generates, every rank gets a contiguous part.
std::vector<Element> distribute_mesh(const Options &o, MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);

    std::vector<Element> all;
    std::vector<int> counts, offsets;
    if (rank == 0) {
        all = generate_mesh(o.nx, o.ny);
        const long long n = static_cast<long long>(all.size());
        for (int r = 0; r < size; r++) {
            offsets.push_back(static_cast<int>(n * r / size));
            counts.push_back(static_cast<int>(n * (r + 1) / size) - offsets.back());
        }
    }

    MPI_Datatype type;
    MPI_Type_contiguous(static_cast<int>(sizeof(Element)), MPI_BYTE, &type);
    MPI_Type_commit(&type);
    int mine = 0;
    MPI_Scatter(counts.data(), 1, MPI_INT, &mine, 1, MPI_INT, 0, comm);
    std::vector<Element> part(static_cast<std::size_t>(mine));
    MPI_Scatterv(all.data(), counts.data(), offsets.data(), type, part.data(), mine, type, 0, comm);
    MPI_Type_free(&type);
    return part;
}

// ---------------------------------------------------------------------------
// Vectors on shared vertices

/// A sum and its accumulated rounding error.
struct Compensated {
    double sum, error;
};

Compensated add(Compensated a, Compensated b) {
    const double sum = a.sum + b.sum;
    const double part = sum - a.sum;
    const double error = (a.sum - (sum - part)) + (b.sum - part);
    return {sum, a.error + b.error + error};
}

void add_all(void *in, void *inout, int *n, MPI_Datatype *) {
    const auto *a = static_cast<const Compensated *>(in);
    auto *b = static_cast<Compensated *>(inout);
    for (int i = 0; i < *n; i++)
        b[i] = add(a[i], b[i]);
}

/// The vertices of this rank: local numbers, weights, reductions.
class Space {
public:
    Space(const std::vector<Element> &elements, MPI_Comm comm) : comm_(comm) {
        for (const Element &e : elements)
            ids_.insert(ids_.end(), e.vertex.begin(), e.vertex.end());
        std::sort(ids_.begin(), ids_.end());
        ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());

        gs_ = gs_setup(ids_.data(), ids_.size(), comm_);
        if (!gs_)
            throw std::runtime_error("the mesh has an invalid vertex number");

        // A vertex is counted once in dot products and written by one rank: the
        // lowest that has it.
        int rank;
        MPI_Comm_rank(comm_, &rank);
        Vector owner(ids_.size(), rank);
        gs_op(gs_, owner.data(), GS_MIN);
        for (double r : owner)
            owned_.push_back(r == rank);

        MPI_Type_contiguous(2, MPI_DOUBLE, &compensated_);
        MPI_Type_commit(&compensated_);
        MPI_Op_create(add_all, 0 /* rank order matters */, &compensated_sum_);
    }
    Space(const Space &) = delete;
    Space &operator=(const Space &) = delete;
    ~Space() {
        MPI_Op_free(&compensated_sum_);
        MPI_Type_free(&compensated_);
        gs_free(gs_);
    }

    std::size_t size() const { return ids_.size(); }
    const std::vector<long long> &ids() const { return ids_; }
    bool owned(std::size_t i) const { return owned_[i]; }
    long long global_size() const { return gs_global_count(gs_); }
    int neighbours() const { return gs_neighbours(gs_); }

    std::size_t local(long long id) const {
        return static_cast<std::size_t>(std::lower_bound(ids_.begin(), ids_.end(), id) - ids_.begin());
    }

    /// Adds up the copies of every vertex.
    void assemble(Vector &v) const { gs_op(gs_, v.data(), GS_SUM); }

    double dot(const Vector &a, const Vector &b) const {
        Compensated mine{0.0, 0.0}, all{};
        for (std::size_t i = 0; i < a.size(); i++)
            if (owned_[i])
                mine = add(mine, {a[i] * b[i], 0.0});
        MPI_Allreduce(&mine, &all, 1, compensated_, compensated_sum_, comm_);
        return all.sum + all.error;
    }

private:
    MPI_Comm comm_;
    std::vector<long long> ids_;
    std::vector<bool> owned_;
    gs_handle *gs_ = nullptr;
    MPI_Datatype compensated_ = MPI_DATATYPE_NULL;
    MPI_Op compensated_sum_ = MPI_OP_NULL;
};

// ---------------------------------------------------------------------------
// Operators

class Operator {
public:
    virtual ~Operator() = default;
    /// out = A in, complete on every copy.
    virtual void apply(const Vector &in, Vector &out) const = 0;
};

/// The sum of the element matrices, one sparse matrix per rank.
class SparseOperator : public Operator {
public:
    using ElementMatrix = std::array<std::array<double, 4>, 4>;

    explicit SparseOperator(const Space &space) : space_(space), building_(space.size()) {}

    void add_element(const Element &e, const ElementMatrix &m) {
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++)
                building_[space_.local(e.vertex[i])][space_.local(e.vertex[j])] += m[i][j];
    }

    void finish() {
        for (const auto &row : building_) {
            start_.push_back(value_.size());
            for (const auto &entry : row) {
                column_.push_back(entry.first);
                value_.push_back(entry.second);
            }
        }
        start_.push_back(value_.size());
        building_.clear();
        building_.shrink_to_fit();
    }

    void apply_local(const Vector &in, Vector &out) const {
        for (std::size_t r = 0; r + 1 < start_.size(); r++) {
            double sum = 0.0;
            for (std::size_t k = start_[r]; k < start_[r + 1]; k++)
                sum += value_[k] * in[column_[k]];
            out[r] = sum;
        }
    }

    void apply(const Vector &in, Vector &out) const override {
        apply_local(in, out);
        space_.assemble(out);
    }

    Vector diagonal() const {
        Vector d(space_.size());
        for (std::size_t r = 0; r + 1 < start_.size(); r++)
            for (std::size_t k = start_[r]; k < start_[r + 1]; k++)
                if (column_[k] == r)
                    d[r] = value_[k];
        space_.assemble(d);
        return d;
    }

private:
    const Space &space_;
    std::vector<std::map<std::size_t, double>> building_;
    std::vector<std::size_t> start_, column_;
    Vector value_;
};

/// M / dt + K.
class StepOperator : public Operator {
public:
    StepOperator(const Space &space, const SparseOperator &mass, const SparseOperator &stiffness, double dt)
        : space_(space), mass_(mass), stiffness_(stiffness), dt_(dt), scratch_(space.size()) {}

    void apply(const Vector &in, Vector &out) const override {
        mass_.apply_local(in, scratch_);
        stiffness_.apply_local(in, out);
        for (std::size_t i = 0; i < out.size(); i++)
            out[i] += scratch_[i] / dt_;
        space_.assemble(out);
    }

private:
    const Space &space_;
    const SparseOperator &mass_, &stiffness_;
    double dt_;
    mutable Vector scratch_;
};

/// Divides by a diagonal: the preconditioner.
class Jacobi : public Operator {
public:
    explicit Jacobi(Vector diagonal) : diagonal_(std::move(diagonal)) {}
    void apply(const Vector &in, Vector &out) const override {
        for (std::size_t i = 0; i < in.size(); i++)
            out[i] = in[i] / diagonal_[i];
    }

private:
    Vector diagonal_;
};

SparseOperator::ElementMatrix integrate(const Element &e, bool stiffness) {
    SparseOperator::ElementMatrix m{};
    const double g = 1.0 / std::sqrt(3.0);
    for (double s : {-g, g})
        for (double t : {-g, g}) {
            const double n[4] = {(1 - s) * (1 - t) / 4, (1 + s) * (1 - t) / 4, (1 + s) * (1 + t) / 4,
                                 (1 - s) * (1 + t) / 4};
            const double ds[4] = {-(1 - t) / 4, (1 - t) / 4, (1 + t) / 4, -(1 + t) / 4};
            const double dt[4] = {-(1 - s) / 4, -(1 + s) / 4, (1 + s) / 4, (1 - s) / 4};
            double xs = 0, xt = 0, ys = 0, yt = 0;
            for (int k = 0; k < 4; k++) {
                xs += ds[k] * e.x[k];
                xt += dt[k] * e.x[k];
                ys += ds[k] * e.y[k];
                yt += dt[k] * e.y[k];
            }
            const double det = xs * yt - xt * ys;
            if (!(det > 0.0))
                throw std::runtime_error("the mesh has a degenerate element");
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    if (stiffness) {
                        const double ix = (ds[i] * yt - dt[i] * ys) / det, iy = (dt[i] * xs - ds[i] * xt) / det;
                        const double jx = (ds[j] * yt - dt[j] * ys) / det, jy = (dt[j] * xs - ds[j] * xt) / det;
                        m[i][j] += e.conductivity * (ix * jx + iy * jy) * det;
                    } else {
                        m[i][j] += n[i] * n[j] * det;
                    }
        }
    return m;
}

// ---------------------------------------------------------------------------
// Conjugate gradients

class ConjugateGradients {
public:
    ConjugateGradients(const Space &space, const Options &o, bool print) : space_(space), options_(o), print_(print) {}

    /// Solves A x = b starting from x; returns the number of iterations.
    int solve(const Operator &a, const Operator &preconditioner, const Vector &b, Vector &x) const {
        const std::size_t n = b.size();
        Vector r(n), z(n), p(n), q(n);
        a.apply(x, q);
        for (std::size_t i = 0; i < n; i++)
            r[i] = b[i] - q[i];
        const double scale = std::sqrt(space_.dot(b, b));
        preconditioner.apply(r, z);
        p = z;
        double rz = space_.dot(r, z), residual = 0.0;

        for (int k = 0; k < options_.max_iterations; k++) {
            residual = std::sqrt(space_.dot(r, r)) / scale;
            if (print_ && k % options_.print_every == 0)
                std::cout << "    iteration " << std::setw(4) << k << "  residual " << residual << '\n';
            if (residual <= options_.tolerance)
                return k;
            a.apply(p, q);
            const double alpha = rz / space_.dot(p, q);
            for (std::size_t i = 0; i < n; i++) {
                x[i] += alpha * p[i];
                r[i] -= alpha * q[i];
            }
            preconditioner.apply(r, z);
            const double rz_new = space_.dot(r, z);
            const double beta = rz_new / rz;
            rz = rz_new;
            for (std::size_t i = 0; i < n; i++)
                p[i] = z[i] + beta * p[i];
        }
        throw NotConverged(options_.max_iterations, residual);
    }

private:
    const Space &space_;
    const Options &options_;
    bool print_;
};

// ---------------------------------------------------------------------------
// Output: every group gathers at its first member, which sends to rank 0

struct Sample {
    long long id;
    double value;
};

std::vector<Sample> gather(const std::vector<Sample> &mine, MPI_Datatype type, MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    const int count = static_cast<int>(mine.size());
    std::vector<int> counts(size), offsets(size);
    MPI_Gather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, comm);
    int total = 0;
    for (int r = 0; r < size && rank == 0; r++) {
        offsets[r] = total;
        total += counts[r];
    }
    std::vector<Sample> all(static_cast<std::size_t>(total));
    MPI_Gatherv(mine.data(), count, type, all.data(), counts.data(), offsets.data(), type, 0, comm);
    return all;
}

class Output {
public:
    Output(MPI_Comm comm, int group_size) {
        int rank;
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_split(comm, rank / group_size, rank, &group_);
        MPI_Comm_split(comm, rank % group_size == 0 ? 0 : MPI_UNDEFINED, rank, &leaders_);

        const int lengths[2] = {1, 1};
        const MPI_Aint at[2] = {offsetof(Sample, id), offsetof(Sample, value)};
        const MPI_Datatype types[2] = {MPI_LONG_LONG, MPI_DOUBLE};
        MPI_Type_create_struct(2, lengths, at, types, &type_);
        MPI_Type_commit(&type_);
    }
    Output(const Output &) = delete;
    Output &operator=(const Output &) = delete;
    ~Output() {
        MPI_Type_free(&type_);
        if (leaders_ != MPI_COMM_NULL)
            MPI_Comm_free(&leaders_);
        MPI_Comm_free(&group_);
    }

    void write(const std::string &path, const Space &space, const Vector &u) const {
        std::vector<Sample> mine;
        for (std::size_t i = 0; i < space.size(); i++)
            if (space.owned(i))
                mine.push_back({space.ids()[i], u[i]});
        std::vector<Sample> all = gather(mine, type_, group_);
        if (leaders_ == MPI_COMM_NULL)
            return;
        all = gather(all, type_, leaders_);
        int rank;
        MPI_Comm_rank(leaders_, &rank);
        if (rank != 0)
            return;

        std::sort(all.begin(), all.end(), [](const Sample &a, const Sample &b) { return a.id < b.id; });
        std::ofstream file(path);
        file << "# vertex temperature (" << all.size() << " vertices)\n" << std::setprecision(17);
        for (const Sample &s : all)
            file << s.id << ' ' << s.value << '\n';
        file.close();
        if (!file)
            throw std::runtime_error("cannot write " + path);
    }

private:
    MPI_Comm group_ = MPI_COMM_NULL, leaders_ = MPI_COMM_NULL;
    MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

// ---------------------------------------------------------------------------

void run(const Options &o) {
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const bool print = rank == 0;

    const std::vector<Element> elements = distribute_mesh(o, MPI_COMM_WORLD);
    const Space space(elements, MPI_COMM_WORLD);
    const Output output(MPI_COMM_WORLD, o.io_group);

    SparseOperator mass(space), stiffness(space);
    for (const Element &e : elements) {
        mass.add_element(e, integrate(e, false));
        stiffness.add_element(e, integrate(e, true));
    }
    mass.finish();
    stiffness.finish();
    const Vector mass_diagonal = mass.diagonal(), stiffness_diagonal = stiffness.diagonal();

    int most_neighbours = 0, neighbours = space.neighbours();
    MPI_Reduce(&neighbours, &most_neighbours, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    if (print)
        std::cout << "cg: " << o.nx << " x " << o.ny << " elements, " << space.global_size() << " vertices, " << size
                  << " ranks with up to " << most_neighbours << " neighbours" << std::endl;

    // Start values from the vertex numbers, which are random.
    Vector u(space.size());
    for (std::size_t i = 0; i < u.size(); i++)
        u[i] = unit(static_cast<std::uint64_t>(space.ids()[i]));

    const ConjugateGradients cg(space, o, print);
    double time = 0.0, dt = 1e-4;
    int rejected = 0;
    for (int step = 1; step <= o.steps;) {
        const StepOperator a(space, mass, stiffness, dt);
        Vector diagonal(space.size()), b(space.size()), x = u;
        for (std::size_t i = 0; i < diagonal.size(); i++)
            diagonal[i] = mass_diagonal[i] / dt + stiffness_diagonal[i];
        mass.apply(u, b);
        for (double &value : b)
            value /= dt;
        try {
            const int iterations = cg.solve(a, Jacobi(std::move(diagonal)), b, x);
            u.swap(x);
            time += dt;
            const double norm = std::sqrt(space.dot(u, u));
            if (print)
                std::cout << "step " << step << "  time " << time << "  iterations " << iterations << "  norm " << norm
                          << std::endl;
            step++;
            dt *= 1.5;
        } catch (const NotConverged &e) {
            if (print)
                std::cout << "step " << step << "  rejected: " << e.what() << " in " << e.iterations()
                          << " iterations (residual " << e.residual() << ")" << std::endl;
            if (dt < 1e-12)
                throw std::runtime_error("the time step has become too small; allow more iterations");
            rejected++;
            dt /= 2.0;
        }
    }

    if (!o.output.empty())
        output.write(o.output, space, u);
    if (print)
        std::cout << "cg: done at time " << time << ", " << rejected << " steps rejected" << std::endl;
}

} // namespace

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::cout << std::scientific << std::setprecision(15);

    int status = 0;
    try {
        run(parse(std::vector<std::string>(argv + 1, argv + argc)));
    } catch (const UsageError &e) {
        // Equal on every rank.
        if (rank == 0)
            std::cerr << "cg: " << e.what() << '\n';
        status = 2;
    } catch (const std::exception &e) {
        std::cerr << "cg: rank " << rank << ": " << e.what() << '\n';
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return status;
}
