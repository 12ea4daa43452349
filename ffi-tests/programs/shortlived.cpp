// Threads that are created and exit all the time, beside some that stay. Thread-local
// objects with destructors, exceptions, futures: shortlived STEPS.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <mpi.h>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static std::atomic<uint64_t> gone{0};
struct Local {
    std::vector<uint64_t> values;
    ~Local() { gone += values.size(); }
};
static thread_local Local local;
static std::shared_mutex guard;

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    return (z ^ (z >> 27)) * 0x94d049bb133111ebu;
}

static uint64_t work(uint64_t seed, int length)
{
    uint64_t sum = seed;
    for (int i = 0; i < length; i++) {
        sum = mix(sum + i);
        if (i % 64 == 0)
            local.values.push_back(sum);
    }
    try {
        if (sum % 2)
            throw std::runtime_error(std::to_string(sum));
    } catch (const std::exception &error) {
        sum ^= std::stoull(error.what());
    }
    for (uint64_t value : local.values)
        sum += value;
    return sum;
}

int main(int argc, char **argv)
{
    int level, rank;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int steps = argc > 1 ? atoi(argv[1]) : 100;
    std::atomic<bool> ends{false};
    std::vector<std::thread> stay;
    // Their work does not contribute to the result; it is only checked.
    std::atomic<uint64_t> wrong{0};
    for (int i = 0; i < 3; i++)
        stay.emplace_back([&, i] {
            uint64_t first = 0;
            while (!ends) {
                std::string text(1000 + i, 'x');
                uint64_t sum = 7;
                for (char c : text)
                    sum = mix(sum + c);
                if (first && first != sum)
                    wrong++;
                first = sum;
            }
        });
    uint64_t total = rank;
    for (int step = 1; step <= steps; step++) {
        std::vector<uint64_t> results(5);
        std::vector<std::thread> some;
        for (int i = 0; i < 5; i++)
            some.emplace_back([&, i] {
                uint64_t mine = work(total + i, 2000 * (i + 1));
                std::unique_lock<std::shared_mutex> lock(guard);
                results[i] = mine;
            });
        auto later = std::async(std::launch::async, [&] { return work(total ^ 99, 5000); });
        uint64_t all;
        MPI_Allreduce(&total, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        for (auto &thread : some)
            thread.join();
        total = all + later.get();
        for (uint64_t result : results)
            total = mix(total ^ result);
        MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0 && step % 5 == 0) {
            printf("step %d: %016llx, %llu gone\n", step, (unsigned long long)total, (unsigned long long)gone.load());
            fflush(stdout);
        }
    }
    ends = true;
    for (auto &thread : stay)
        thread.join();
    uint64_t bad = wrong;
    MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%llu wrong\n", (unsigned long long)bad);
    MPI_Finalize();
}
