/*
 * supersteps: a skeleton for programs that repeat "compute, exchange" on arrays
 * that are distributed over processes.
 *
 * A kernel defines which part of the whole array each rank computes in which
 * superstep, which part it needs for that, and how to compute it.  The skeleton
 * derives all messages from these boxes and exchanges them after each superstep.
 * Supersteps are locally strict (all messages of a rank have been sent and received
 * before its next one begins) and globally relaxed (there is no barrier; ranks that
 * exchange nothing never wait for each other).  Parts may change from superstep to
 * superstep, so work can be redistributed, or move around.
 *
 * The skeleton contains the annotations that the program would need for
 * checkpoints.  Loops without collectives have no place where a checkpoint may be
 * taken, so there is a point (understudy.h) after each superstep.  One of the two
 * arrays is not needed at this point, so no checkpoint contains that array.  Without
 * understudy, both annotations do nothing.
 *
 * The model is GReLoSSS of Makassikis, Galtier, Vialle: "A skeletal-based approach
 * for the development of fault-tolerant SPMD applications" (2010).
 */
#ifndef SUPERSTEPS_HPP
#define SUPERSTEPS_HPP

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include <mpi.h>

#include "understudy.h"

namespace supersteps {

template <std::size_t N>
using Index = std::array<long, N>;

/* A part of an array in global coordinates: lo <= index < hi in each dimension. */
template <std::size_t N>
struct Box {
    Index<N> lo{}, hi{};

    constexpr bool is_empty() const
    {
        for (std::size_t d = 0; d < N; d++)
            if (lo[d] >= hi[d])
                return true;
        return false;
    }

    constexpr long extent(std::size_t d) const { return hi[d] > lo[d] ? hi[d] - lo[d] : 0; }

    constexpr std::size_t count() const
    {
        std::size_t product = 1;
        for (std::size_t d = 0; d < N; d++)
            product *= static_cast<std::size_t>(extent(d));
        return product;
    }

    constexpr bool contains(const Box &other) const
    {
        if (other.is_empty())
            return true;
        for (std::size_t d = 0; d < N; d++)
            if (other.lo[d] < lo[d] || other.hi[d] > hi[d])
                return false;
        return true;
    }

    constexpr Box intersected(const Box &other) const
    {
        Box common;
        for (std::size_t d = 0; d < N; d++) {
            common.lo[d] = lo[d] > other.lo[d] ? lo[d] : other.lo[d];
            common.hi[d] = hi[d] < other.hi[d] ? hi[d] : other.hi[d];
        }
        return common;
    }

    /* Larger by `width` on all sides, but not beyond `whole`. */
    constexpr Box grown(long width, const Box &whole) const
    {
        Box larger = *this;
        for (std::size_t d = 0; d < N; d++) {
            larger.lo[d] -= width;
            larger.hi[d] += width;
        }
        return larger.intersected(whole);
    }

    /* The part that is not in `other`, as boxes that do not overlap. */
    std::vector<Box> without(const Box &other) const
    {
        std::vector<Box> parts;
        Box rest = *this;
        if (is_empty() || intersected(other).is_empty())
            return is_empty() ? parts : std::vector<Box>{*this};
        for (std::size_t d = 0; d < N; d++) {
            Box below = rest, above = rest;
            below.hi[d] = rest.lo[d] = std::max(rest.lo[d], other.lo[d]);
            above.lo[d] = rest.hi[d] = std::min(rest.hi[d], other.hi[d]);
            for (const Box &part : {below, above})
                if (!part.is_empty())
                    parts.push_back(part);
        }
        return parts;
    }

    /* Local coordinates, which count from the box's own corner. */
    constexpr Index<N> local(const Index<N> &global) const
    {
        Index<N> at{};
        for (std::size_t d = 0; d < N; d++)
            at[d] = global[d] - lo[d];
        return at;
    }

    constexpr bool operator==(const Box &other) const { return lo == other.lo && hi == other.hi; }
};

/*
 * In the second of three processes with five columns each, global column 8 is local
 * column 3.
 */
static_assert(Box<2>{{0, 5}, {3, 10}}.local({1, 8})[0] == 1 && Box<2>{{0, 5}, {3, 10}}.local({1, 8})[1] == 3);

/* Part `rank` of `size` approximately equal parts of n things. */
inline std::pair<long, long> share(long n, int rank, int size)
{
    return {n * rank / size, n * (rank + 1) / size};
}

/* The dimension whose elements are adjacent in memory. */
enum class Order { last_first /* C */, first_first /* Fortran */ };

/* The elements of a box. */
template <class T, std::size_t N, Order order = Order::last_first>
class Array {
    static_assert(std::is_trivially_copyable_v<T>, "elements are sent as bytes");

public:
    using element = T;
    static constexpr std::size_t dimensions = N;

    const Box<N> &box() const { return box_; }
    T *data() { return elements_.data(); }
    const T *data() const { return elements_.data(); }
    std::size_t bytes() const { return elements_.size() * sizeof(T); }

    /* Changes to another box; the content is lost, unless the box is equal. */
    void reshape(const Box<N> &box)
    {
        if (box == box_)
            return;
        box_ = box;
        elements_.resize(box.count());
        long stride = 1;
        for (std::size_t k = 0; k < N; k++) {
            strides_[dimension(k)] = stride;
            stride *= box.extent(dimension(k));
        }
    }

    /* Distance in memory of neighbours in this dimension. */
    long stride(std::size_t d) const { return strides_[d]; }

    /* By local coordinates. */
    template <class... I>
    T &operator()(I... at)
    {
        return elements_[place({static_cast<long>(at)...})];
    }
    template <class... I>
    const T &operator()(I... at) const
    {
        return elements_[place({static_cast<long>(at)...})];
    }

    /* By global coordinates. */
    T &at(const Index<N> &global) { return elements_[place(box_.local(global))]; }
    const T &at(const Index<N> &global) const { return elements_[place(box_.local(global))]; }

    /* True if the elements of a part are consecutive in memory. */
    bool is_contiguous(const Box<N> &part) const
    {
        bool is_whole = true;
        for (std::size_t k = 0; k < N; k++) {
            std::size_t d = dimension(k);
            if (!is_whole && part.extent(d) != 1)
                return false;
            is_whole = is_whole && part.extent(d) == box_.extent(d);
        }
        return true;
    }

    /* Copies the elements of a part to memory, in their order. */
    void pack(const Box<N> &part, T *to) const
    {
        for_lines(part, [&](std::size_t at, std::size_t count) {
            std::memcpy(to, elements_.data() + at, count * sizeof(T));
            to += count;
        });
    }
    void unpack(const Box<N> &part, const T *from)
    {
        for_lines(part, [&](std::size_t at, std::size_t count) {
            std::memcpy(elements_.data() + at, from, count * sizeof(T));
            from += count;
        });
    }

    /* Copies the common part. */
    void copy(const Array &from)
    {
        Box<N> common = box_.intersected(from.box_);
        std::vector<T> buffer(common.count());
        from.pack(common, buffer.data());
        unpack(common, buffer.data());
    }

private:
    /* The k-th fastest dimension. */
    static constexpr std::size_t dimension(std::size_t k) { return order == Order::last_first ? N - 1 - k : k; }

    std::size_t place(const Index<N> &local) const
    {
        long sum = 0;
        for (std::size_t d = 0; d < N; d++)
            sum += local[d] * strides_[d];
        return static_cast<std::size_t>(sum);
    }

    /* Calls `act` with the place and length of each line of a part. */
    template <class Act>
    void for_lines(const Box<N> &part, Act act) const
    {
        if (part.is_empty())
            return;
        const std::size_t fastest = dimension(0);
        Index<N> at = part.lo;
        for (;;) {
            act(place(box_.local(at)), static_cast<std::size_t>(part.extent(fastest)));
            std::size_t k = 1;
            while (k < N && ++at[dimension(k)] == part.hi[dimension(k)]) {
                at[dimension(k)] = part.lo[dimension(k)];
                k++;
            }
            if (k >= N)
                return;
        }
    }

    Box<N> box_;
    Index<N> strides_{};
    std::vector<T> elements_;
};

/* Messages after a superstep: elements that one rank has, and another one needs and
 * does not have. */
template <class A>
class Plan {
    static constexpr std::size_t N = A::dimensions;
    using T = typename A::element;

public:
    /* At most `pace` partners at a time; 0: all at once. */
    Plan(MPI_Comm comm, int pace) : pace_(pace)
    {
        MPI_Comm_dup(comm, &comm_);
        MPI_Comm_rank(comm_, &rank_);
        MPI_Comm_size(comm_, &size_);
    }
    ~Plan() { MPI_Comm_free(&comm_); }
    Plan(const Plan &) = delete;
    Plan &operator=(const Plan &) = delete;

    int rank() const { return rank_; }
    int size() const { return size_; }

    /* Derives the messages from the parts that all ranks have and need.  Does
     * nothing if these have not changed. */
    void make(const std::vector<Box<N>> &possessed, const std::vector<Box<N>> &needed)
    {
        if (possessed == possessed_ && needed == needed_)
            return;
        possessed_ = possessed;
        needed_ = needed;
        partners_.clear();
        auto message = [&](int from, int to) {
            return possessed[from].intersected(needed[to]).without(possessed[to]);
        };
        /* In each round every rank has another partner, and the relation is mutual:
         * so ranks that take few partners at a time never wait in a circle. */
        for (int round = 0; round < size_; round++) {
            int other = (round - rank_ + size_) % size_;
            if (other == rank_)
                continue;
            Partner partner{other, message(rank_, other), message(other, rank_), {}};
            if (!partner.out.empty() || !partner.in.empty())
                partners_.push_back(std::move(partner));
        }
    }

    /* Sends the elements of `from` that others need, and receives those needed here
     * into `to`, which may be `from`. */
    void run(A &from, A &to)
    {
        std::size_t begun = 0, ended = 0, limit = pace_ > 0 ? static_cast<std::size_t>(pace_) : partners_.size();
        while (ended < partners_.size()) {
            while (begun < partners_.size() && begun < ended + limit)
                begin(partners_[begun++], from, to);
            if (limit >= partners_.size())
                ended = end_all(to);
            else
                end(partners_[ended++], to);
        }
    }

private:
    static constexpr int TAG = 50;

    struct Partner {
        int rank;
        std::vector<Box<N>> out, in;
        std::vector<std::vector<T>> buffers; /* of non-contiguous parts; received ones first */
        std::vector<MPI_Request> requests{};
    };

    static int bytes_of(const Box<N> &part)
    {
        std::size_t bytes = part.count() * sizeof(T);
        if (bytes > INT_MAX) {
            std::fprintf(stderr, "supersteps: a message of %zu bytes is too long; use more ranks\n", bytes);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        return static_cast<int>(bytes);
    }

    void begin(Partner &partner, A &from, A &to)
    {
        std::size_t k = 0;
        partner.buffers.resize(partner.in.size() + partner.out.size());
        partner.requests.assign(partner.buffers.size(), MPI_REQUEST_NULL);
        auto buffer = [&](const Box<N> &part) {
            partner.buffers[k].resize(part.count());
            return partner.buffers[k].data();
        };
        for (const Box<N> &part : partner.in) {
            T *place = to.is_contiguous(part) ? &to.at(part.lo) : buffer(part);
            MPI_Irecv(place, bytes_of(part), MPI_BYTE, partner.rank, TAG, comm_, &partner.requests[k++]);
        }
        for (const Box<N> &part : partner.out) {
            T *place = &from.at(part.lo);
            if (!from.is_contiguous(part))
                from.pack(part, place = buffer(part));
            MPI_Issend(place, bytes_of(part), MPI_BYTE, partner.rank, TAG, comm_, &partner.requests[k++]);
        }
    }

    void unpack(Partner &partner, A &to)
    {
        for (std::size_t k = 0; k < partner.in.size(); k++)
            if (!to.is_contiguous(partner.in[k]))
                to.unpack(partner.in[k], partner.buffers[k].data());
    }

    void end(Partner &partner, A &to)
    {
        MPI_Waitall(static_cast<int>(partner.requests.size()), partner.requests.data(), MPI_STATUSES_IGNORE);
        unpack(partner, to);
    }

    std::size_t end_all(A &to)
    {
        all_.clear();
        for (Partner &partner : partners_)
            all_.insert(all_.end(), partner.requests.begin(), partner.requests.end());
        MPI_Waitall(static_cast<int>(all_.size()), all_.data(), MPI_STATUSES_IGNORE);
        for (Partner &partner : partners_)
            unpack(partner, to);
        return partners_.size();
    }

    MPI_Comm comm_;
    int rank_, size_, pace_;
    std::vector<Box<N>> possessed_, needed_;
    std::vector<Partner> partners_;
    std::vector<MPI_Request> all_;
};

/*
 * Supersteps from `begin` to before `end`.  A kernel has
 *
 *   using array = Array<...>;
 *   Box<N> possessed(int rank, int size, long step);  part that the rank computes
 *                                                     in this superstep
 *   Box<N> needed(int rank, int size, long step);     part that it needs for that
 *   bool communicates(long step);                     an equal result in all ranks
 *   void initialise(array &);                         all of it, for the first superstep
 *   void calculate(const array &read, array &write, long step);
 *
 * calculate() writes all that the rank possesses in this superstep; read has all
 * that it needs.  Ranks possess parts of the array that do not overlap.  Returns
 * the part that is needed for superstep `end`.  Collective over `comm`.
 */
template <class Kernel>
typename Kernel::array run(Kernel &kernel, long begin, long end, MPI_Comm comm, int pace = 0)
{
    using A = typename Kernel::array;
    using B = Box<A::dimensions>;
    Plan<A> plan(comm, pace);
    const int rank = plan.rank(), size = plan.size();
    A read, write;

    read.reshape(kernel.needed(rank, size, begin));
    kernel.initialise(read);
    std::vector<B> possessed(size), needed(size);
    for (long step = begin; step != end; step++) {
        B own = kernel.possessed(rank, size, step), next = kernel.needed(rank, size, step + 1);
        /* If the next box contains the rank's part, the part is computed in that box. */
        const bool stays = next.contains(own);
        write.reshape(stays ? next : own);
        kernel.calculate(read, write, step);
        if (!stays) {
            read.reshape(next);
            read.copy(write);
        }
        if (kernel.communicates(step)) {
            for (int r = 0; r < size; r++) {
                possessed[r] = kernel.possessed(r, size, step);
                needed[r] = kernel.needed(r, size, step + 1);
            }
            plan.make(possessed, needed);
            plan.run(write, stays ? write : read);
        }
        if (stays)
            std::swap(read, write);
        understudy_discard(write.data(), write.bytes());
        understudy_point();
    }
    return read;
}

} // namespace supersteps

#endif
