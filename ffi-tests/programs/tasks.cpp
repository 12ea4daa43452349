// A pool of threads that take tasks out of a queue, some of which create others, and
// threads that sleep indefinitely in other ways: tasks STEPS.
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mpi.h>
#include <mutex>
#include <pthread.h>
#include <semaphore.h>
#include <stdexcept>
#include <thread>
#include <vector>

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    return (z ^ (z >> 27)) * 0x94d049bb133111ebu;
}

class Pool {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> tasks;
    bool ends = false;
    std::vector<std::thread> threads;

    void run()
    {
        for (std::unique_lock<std::mutex> lock(mutex);;) {
            changed.wait(lock, [this] { return ends || !tasks.empty(); });
            if (tasks.empty())
                return;
            auto task = std::move(tasks.front());
            tasks.pop_front();
            lock.unlock();
            task();
            lock.lock();
        }
    }

public:
    explicit Pool(int count)
    {
        for (int i = 0; i < count; i++)
            threads.emplace_back([this] { run(); });
    }

    template <typename F> auto add(F work) -> std::future<decltype(work())>
    {
        auto task = std::make_shared<std::packaged_task<decltype(work())()>>(std::move(work));
        auto result = task->get_future();
        std::lock_guard<std::mutex> lock(mutex);
        tasks.push_back([task] { (*task)(); });
        changed.notify_one();
        return result;
    }

    ~Pool()
    {
        {
            std::lock_guard<std::mutex> lock(mutex);
            ends = true;
        }
        changed.notify_all();
        for (auto &thread : threads)
            thread.join();
    }
};

// A thread that is woken once per step, and answers.
class Sleeper {
    sem_t asked, answered;
    uint64_t value = 0;
    bool ends = false;
    std::thread thread;

public:
    Sleeper()
    {
        sem_init(&asked, 0, 0);
        sem_init(&answered, 0, 0);
        thread = std::thread([this] {
            while (sem_wait(&asked) == 0 && !ends) {
                value = mix(value + 1);
                sem_post(&answered);
            }
        });
    }

    void ask() { sem_post(&asked); }

    uint64_t answer()
    {
        // Another return value is an error (EINTR) that the program does not expect.
        if (sem_wait(&answered) != 0)
            std::abort();
        return value;
    }

    ~Sleeper()
    {
        ends = true;
        ask();
        thread.join();
    }
};

int main(int argc, char **argv)
{
    int level, rank;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int steps = argc > 1 ? atoi(argv[1]) : 100;
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, nullptr, 2);
    pthread_rwlock_t guard;
    pthread_rwlock_init(&guard, nullptr);
    std::promise<uint64_t> last;
    std::shared_future<uint64_t> known = last.get_future().share();
    uint64_t total = rank, met = 0, locked = 0;
    // This thread waits for one value, over all cuts.
    auto patient = std::async(std::launch::async, [known] { return mix(known.get()); });
    // In every step, a thread waits for the main one at a barrier, and then for a lock
    // that the main thread holds.
    std::thread meets([&] {
        for (int step = 1; step <= steps; step++) {
            pthread_barrier_wait(&barrier);
            met = mix(met + step);
            pthread_rwlock_rdlock(&guard);
            locked += mix(total ^ met);
            pthread_rwlock_unlock(&guard);
            pthread_barrier_wait(&barrier);
        }
    });
    {
        Pool pool(3);
        Sleeper sleeper;
        for (int step = 1; step <= steps; step++) {
            std::vector<std::future<uint64_t>> results;
            for (int i = 0; i < 6; i++)
                results.push_back(pool.add([&pool, i, start = total + i] {
                    uint64_t sum = start;
                    for (int round = 0; round < 3000 * (i + 1); round++)
                        sum = mix(sum + round);
                    if (i == 3)
                        throw std::runtime_error(std::to_string(sum));
                    // One task hands a part over; no thread of the pool waits for it.
                    return i == 2 ? sum ^ pool.add([sum] { return mix(sum); }).valid() : sum;
                }));
            pthread_rwlock_wrlock(&guard);
            pthread_barrier_wait(&barrier);
            uint64_t all;
            MPI_Allreduce(&total, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
            total = all;
            pthread_rwlock_unlock(&guard);
            pthread_barrier_wait(&barrier);
            sleeper.ask();
            for (auto &result : results) {
                try {
                    total = mix(total ^ result.get());
                } catch (const std::runtime_error &error) {
                    total = mix(total + std::stoull(error.what()));
                }
            }
            total += sleeper.answer() ^ locked;
            MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
            if (rank == 0 && step % 5 == 0) {
                std::printf("step %d: %016llx\n", step, (unsigned long long)total);
                std::fflush(stdout);
            }
        }
    }
    meets.join();
    last.set_value(total);
    total = patient.get() ^ known.get();
    MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("all: %016llx\n", (unsigned long long)total);
    MPI_Finalize();
    return 0;
}
