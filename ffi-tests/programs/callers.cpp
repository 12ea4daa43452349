// A thread that only calls MPI, workers that it serves, and short-lived threads
// that call MPI once: callers STEPS.
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <mpi.h>
#include <mutex>
#include <queue>
#include <stdexcept>
#include <thread>
#include <vector>

static thread_local uint64_t calls;
static thread_local std::vector<uint64_t> seen;

// Serves one request after the other.
class Server {
    std::mutex mutex;
    std::condition_variable changed;
    std::queue<std::function<void()>> asked;
    bool ends = false;
    std::thread thread{[this] { serve(); }};

    void serve()
    {
        for (std::unique_lock<std::mutex> lock(mutex);;) {
            changed.wait(lock, [this] { return ends || !asked.empty(); });
            if (asked.empty())
                return;
            auto request = std::move(asked.front());
            asked.pop();
            lock.unlock();
            errno = 77;
            request();
            if (errno != 77)
                std::abort();
            lock.lock();
        }
    }

public:
    template <typename F> auto ask(F request) -> std::future<decltype(request())>
    {
        auto task = std::make_shared<std::packaged_task<decltype(request())()>>(std::move(request));
        auto answer = task->get_future();
        std::lock_guard<std::mutex> lock(mutex);
        asked.push([task] { (*task)(); });
        changed.notify_one();
        return answer;
    }

    ~Server()
    {
        {
            std::lock_guard<std::mutex> lock(mutex);
            ends = true;
        }
        changed.notify_one();
        thread.join();
    }
};

static MPI_Op add;
static uint64_t *callers;

// A callback has the thread-local data of the calling thread.
static void add_up(void *in, void *inout, int *length, MPI_Datatype *)
{
    if (callers != &calls)
        std::abort();
    for (int i = 0; i < *length; i++)
        static_cast<uint64_t *>(inout)[i] += static_cast<uint64_t *>(in)[i];
}

static uint64_t sum(uint64_t value)
{
    callers = &calls;
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_UINT64_T, add, MPI_COMM_WORLD);
    seen.push_back(value);
    return value + ++calls + seen.size();
}

int main(int argc, char **argv)
{
    int level, rank, size;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int steps = argc > 1 ? atoi(argv[1]) : 100;
    uint64_t total = rank;
    MPI_Op_create(add_up, 1, &add);
    {
        Server server;
        for (int step = 1; step <= steps; step++) {
            // The main thread computes meanwhile.
            auto answer = server.ask([=] { return sum(total + step); });
            uint64_t own = total;
            for (int i = 0; i < 20000; i++)
                own = own * 6364136223846793005u + i;
            total += answer.get() ^ (own >> 32);
            // A thread that lives for one call.
            uint64_t came = 0;
            std::thread([&] {
                try {
                    MPI_Sendrecv(&total, 1, MPI_UINT64_T, (rank + 1) % size, step, &came, 1, MPI_UINT64_T,
                                 (rank + size - 1) % size, step, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                    throw std::runtime_error("as it should");
                } catch (const std::exception &) {
                    came += sum(step);
                }
            }).join();
            total += came;
            if (rank == 0 && step % 5 == 0) {
                std::printf("step %d: %016llx\n", step, (unsigned long long)total);
                std::fflush(stdout);
            }
        }
    }
    MPI_Finalize();
    return 0;
}
