/*
 * Ends in one of many ways in the middle of its run, without using understudy.
 *
 *     endings HOW WHO [FILE [OTHER]]
 *
 * HOW is a name in the table below. WHO is the rank that ends, or `next`: the
 * first time rank 0, then rank 1, and so on. With a FILE, a rank ends only if
 * it can remove that file. With a file OTHER, the rank below WHO waits until WHO
 * is about to end, removes OTHER, and kills itself. Ends are counted in the file
 * `endings`. The program removes files and counts by system calls of its own,
 * since effects of the C library on files may be undone.
 */
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <mpi.h>
#include <stdexcept>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

const int STEPS = 50, LAST = 30;
volatile int zero = 0;
int *volatile nowhere = nullptr;

__attribute__((noinline)) void dereference() { *nowhere = 1; }
__attribute__((noinline)) void divide() { zero = 1000 / zero; }
__attribute__((noinline)) void undefined() { __asm__ volatile("ud2"); }
__attribute__((noinline)) void raise_own() { raise(SIGSEGV); }
__attribute__((noinline)) void call_abort() { std::abort(); }
__attribute__((noinline)) void throw_up() { throw std::runtime_error("nobody catches this"); }
void call_exit() { std::exit(5); }
void call_exit_0() { std::exit(0); }
void leave() { _exit(5); }
void abort_job() { MPI_Abort(MPI_COMM_WORLD, 6); }
void terminate() { kill(getpid(), SIGKILL); }
/* Another process sends a signal that usually is a fault. */
void be_sent()
{
    if (fork() == 0) {
        kill(getppid(), SIGSEGV);
        _exit(0);
    }
    pause();
}
/* The fault is within the MPI library. */
void bad_buffer()
{
    static int target[4000];
    MPI_Sendrecv(reinterpret_cast<void *>(64), 4000, MPI_INT, 0, 1, target, 4000, MPI_INT, 0, 1, MPI_COMM_SELF,
                 MPI_STATUS_IGNORE);
}

#pragma GCC diagnostic ignored "-Winfinite-recursion"
__attribute__((noinline)) int recurse(int depth)
{
    volatile char frame[4096];
    frame[0] = static_cast<char>(depth);
    return recurse(depth + 1) + frame[0];
}
void overflow() { zero = recurse(0); }

sigjmp_buf before;
volatile sig_atomic_t caught = 0;

void jump_back(int)
{
    caught = caught + 1;
    siglongjmp(before, 1);
}

/* A program that handles its faults itself. */
void catch_own()
{
    struct sigaction own = {}, old = {};
    own.sa_handler = jump_back;
    sigaction(SIGSEGV, &own, &old);
    if (old.sa_handler != SIG_DFL)
        std::printf("SIGSEGV was not at its default\n");
    if (sigsetjmp(before, 1) == 0)
        dereference();
    if (signal(SIGSEGV, SIG_DFL) != jump_back)
        std::printf("the handler has changed\n");
    if (signal(SIGSEGV, SIG_IGN) != SIG_DFL || signal(SIGSEGV, SIG_DFL) != SIG_IGN)
        std::printf("the default has changed\n");
    sigaction(SIGSEGV, nullptr, &old);
    if (old.sa_handler != SIG_DFL || (old.sa_flags & SA_SIGINFO) != 0 || caught != 1)
        std::printf("the default is not what was set\n");
    caught = 0;
}

/* A child process may end in any way. */
void end_child()
{
    std::fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        std::exit(7);
    int status = 0;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
        std::printf("the child has ended with %d\n", status);
}

struct {
    const char *name;
    void (*end)();
} const ways[] = {
    {"dereference", dereference}, {"divide", divide},    {"undefined", undefined},   {"raise", raise_own},
    {"abort", call_abort},        {"throw", throw_up},   {"exit", call_exit},        {"_exit", leave},      {"exit-0", call_exit_0},
    {"MPI_Abort", abort_job},     {"kill", terminate}, {"sent", be_sent},   {"bad-buffer", bad_buffer}, {"overflow", overflow},
    {"catch", catch_own},        {"child", end_child},
};

/* Counts an end. */
void count()
{
    long file = syscall(SYS_open, "endings", O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (syscall(SYS_write, file, "x", 1) != 1)
        std::perror("endings");
    syscall(SYS_close, file);
}

long ends_before()
{
    long file = syscall(SYS_open, "endings", O_RDONLY, 0);
    if (file < 0)
        return 0;
    long length = syscall(SYS_lseek, file, 0, SEEK_END);
    syscall(SYS_close, file);
    return length < 0 ? 0 : length;
}

/* Kills this rank when the first other rank is about to end, if this rank can
 * remove `file`. */
void follow(const char *file)
{
    while (access(file, F_OK) == 0 && ends_before() == 0)
        usleep(1000);
    if (syscall(SYS_unlink, file) == 0) {
        usleep(20000);
        terminate();
    }
}

} // namespace

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 3)
        return 2;
    void (*end)() = nullptr;
    for (auto &way : ways)
        if (std::strcmp(way.name, argv[1]) == 0)
            end = way.end;
    if (end == nullptr)
        return 2;
    bool is_harmless = end == catch_own || end == end_child;
    double value = rank + 1, sum = 0;
    for (int step = 0; step < STEPS; step++) {
        MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        value = sum / size + rank;
        int who = std::strcmp(argv[2], "next") == 0 ? static_cast<int>(ends_before() % size) : std::atoi(argv[2]);
        MPI_Bcast(&who, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (rank == 0) {
            std::printf("step %d: %.17g\n", step, sum);
            std::fflush(stdout);
        }
        usleep(10000);
        if (is_harmless)
            end();
        else if (step == LAST && rank == who && (argc < 4 || syscall(SYS_unlink, argv[3]) == 0)) {
            count();
            end();
        } else if (step == LAST && rank == who - 1 && argc > 4)
            follow(argv[4]);
    }
    MPI_Finalize();
    return 0;
}
