/*
 * unlike: a set-up phase whose results vary on purpose: clocks, PID, host name, random
 * bytes and numbers, the time-stamp counter, pointers to all of them, blocks of random
 * sizes, and the order of a hash table of their addresses. The main phase repeatedly
 * checks, in every rank, that all of them equal the values at the end of the phase.
 *
 *   mpirun -n 4 unlike COLLECTIVES [calls]
 *
 * With `calls`, the arguments of MPI calls depend on these values.
 */
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <memory>
#include <mpi.h>
#include <numeric>
#include <random>
#include <string>
#include <sys/time.h>
#include <unistd.h>
#include <unordered_set>
#include <vector>
#include <x86intrin.h>

namespace {

struct Unlike {
    time_t second = std::time(nullptr);
    timeval of_day{};
    timespec monotonic{};
    clock_t used = std::clock();
    pid_t process = getpid();
    char host[64]{};
    unsigned char random[6000]{};
    unsigned device = std::random_device{}();
    uint64_t counter = __rdtsc();
    std::string text;
    /* Pointers to varying data. */
    const void *places[4]{};

    Unlike()
    {
        gettimeofday(&of_day, nullptr);
        clock_gettime(CLOCK_MONOTONIC, &monotonic);
        gethostname(host, sizeof host);
        int source = open("/dev/urandom", O_RDONLY);
        if (source < 0 || read(source, random, sizeof random) != sizeof random)
            MPI_Abort(MPI_COMM_WORLD, 1);
        close(source);
        text = std::to_string(second) + " in " + host + " by " + std::to_string(process);
        places[0] = this, places[1] = &second, places[2] = text.data(), places[3] = random;
    }
};

/* Static data: `operator_` is equal in a replay, and most of `unlike` is not. */
std::vector<double> operator_;
std::unique_ptr<Unlike> unlike;
std::vector<std::unique_ptr<std::vector<int>>> blocks;
std::unordered_set<const void *> known;
std::vector<const void *> order;

void set_up(int rank, bool in_calls)
{
    unlike = std::make_unique<Unlike>();
    std::mt19937 generator(unlike->device ^ unlike->random[0] ^ unsigned(unlike->process) ^ unsigned(unlike->counter));
    for (int block = 0; block < 40; block++) {
        blocks.push_back(std::make_unique<std::vector<int>>(1 + generator() % 3000, block));
        known.insert(blocks.back().get());
    }
    order.assign(known.begin(), known.end());
    if (in_calls) {
        auto &block = *blocks[generator() % blocks.size()];
        MPI_Bcast(block.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    operator_.resize(100000);
    for (size_t cell = 0; cell < operator_.size(); cell++)
        operator_[cell] = 1.0 / double(1 + cell + size_t(rank));
}

uint64_t mix(uint64_t sum, const void *from, size_t length)
{
    auto bytes = static_cast<const unsigned char *>(from);
    return std::accumulate(bytes, bytes + length, sum, [](uint64_t sum, unsigned char byte) {
        return (sum ^ byte) * 1099511628211u;
    });
}

/* Hash of all varying data. */
uint64_t fingerprint()
{
    uint64_t sum = mix(14695981039346656037u, unlike.get(), sizeof(Unlike));
    sum = mix(sum, unlike->text.data(), unlike->text.size());
    for (auto &block : blocks)
        sum = mix(sum, block->data(), block->size() * sizeof(int));
    for (auto place : known)
        sum = mix(sum, &place, sizeof place);
    return mix(sum, order.data(), order.size() * sizeof order[0]);
}

} // namespace

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    /* Allocated before the set-up makes addresses differ. */
    std::vector<uint64_t> at_first(size_t(size), 0), now(size_t(size), 0);
    int collectives = argc > 1 ? std::atoi(argv[1]) : 100;
    set_up(rank, argc > 2 && !std::strcmp(argv[2], "calls"));
    double scale = 1 + rank, sum;
    MPI_Bcast(&scale, 1, MPI_DOUBLE, size - 1, MPI_COMM_WORLD);

    uint64_t own = fingerprint();
    MPI_Allgather(&own, 1, MPI_UINT64_T, at_first.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
    sum = scale;
    int wrong = 0;
    for (int step = 0; step < collectives; step++) {
        double mine = operator_[size_t(step) % operator_.size()] * sum;
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (step % 100 == 99) {
            own = fingerprint();
            MPI_Allgather(&own, 1, MPI_UINT64_T, now.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
            wrong += now != at_first;
            /* A small part of the varying data changes in the main phase, too. */
            unlike->random[step % sizeof unlike->random]++;
            own = fingerprint();
            MPI_Allgather(&own, 1, MPI_UINT64_T, at_first.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
        }
        if (rank == 0 && step % 1000 == 999) {
            std::printf("step %d: %.17g, %d wrong\n", step, sum, wrong);
            std::fflush(stdout);
        }
    }
    MPI_Finalize();
    return wrong != 0;
}
