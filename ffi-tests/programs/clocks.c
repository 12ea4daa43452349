/*
 * clocks: fills static data from clocks and other procedures of libc whose
 * results vary, and checks in the main phase that the data stay.
 *
 *   mpirun -n 4 clocks COLLECTIVES [signals]
 *
 * With `signals`, a signal handler reads clocks repeatedly, on its own stack.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { ROWS = 300 };

struct answers {
    struct timespec monotonic, wall, mine;
    struct timeval of_day;
    struct timezone zone;
    time_t second, again;
    clock_t used;
    struct tms times;
    clock_t since;
    struct rusage usage;
    pid_t process, parent;
    char host[80];
    struct utsname name;
    unsigned char random[100], entropy[50];
    int processor;
    double sum;
};

static struct answers all[ROWS];
static volatile sig_atomic_t ticks;

static void tick(int signal)
{
    struct timespec now;
    (void)signal;
    clock_gettime(CLOCK_MONOTONIC, &now);
    ticks += now.tv_sec != 0 && time(NULL) != 0 && getpid() != 0;
}

static void ask_in_handlers(void)
{
    static char memory[65536];
    stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_ONSTACK | SA_RESTART};
    struct itimerval every = {{0, 200}, {0, 200}};
    sigaltstack(&stack, NULL);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
}

static void ask(struct answers *row)
{
    clock_gettime(CLOCK_MONOTONIC, &row->monotonic);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &row->mine);
    timespec_get(&row->wall, TIME_UTC);
    gettimeofday(&row->of_day, &row->zone);
    row->second = time(&row->again);
    row->used = clock();
    row->since = times(&row->times);
    getrusage(RUSAGE_SELF, &row->usage);
    row->process = getpid();
    row->parent = getppid();
    gethostname(row->host, sizeof row->host);
    uname(&row->name);
    if (getrandom(row->random, sizeof row->random, 0) != sizeof row->random ||
        getentropy(row->entropy, sizeof row->entropy))
        MPI_Abort(MPI_COMM_WORLD, 1);
    row->processor = sched_getcpu();
}

static uint64_t fingerprint(void)
{
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < sizeof all; i++)
        sum = (sum ^ ((unsigned char *)all)[i]) * 1099511628211u;
    return sum;
}

int main(int argc, char **argv)
{
    int rank, size, wrong = 0;
    static uint64_t first[256], now[256];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int collectives = argc > 1 ? atoi(argv[1]) : 100, in_handlers = argc > 2 && !strcmp(argv[2], "signals");
    if (in_handlers)
        ask_in_handlers();
    for (int row = 0; row < ROWS; row++) {
        ask(&all[row]);
        double own = rank + row;
        if (row % 20 == 0)
            MPI_Allreduce(&own, &all[row].sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    uint64_t own = fingerprint();
    MPI_Allgather(&own, 1, MPI_UINT64_T, first, 1, MPI_UINT64_T, MPI_COMM_WORLD);
    double sum = 1;
    for (int step = 0; step < collectives; step++) {
        double mine = sum * (1 + rank) / (step + 1.0);
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        sum = 1 + 1e-3 * sum;
        if (step % 200 == 199) {
            own = fingerprint();
            MPI_Allgather(&own, 1, MPI_UINT64_T, now, 1, MPI_UINT64_T, MPI_COMM_WORLD);
            wrong += memcmp(first, now, size * sizeof *now) != 0;
        }
        if (rank == 0 && step % 1000 == 999) {
            printf("step %d: %.17g, %d wrong\n", step, sum, wrong);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return wrong != 0 || (in_handlers && ticks == 0);
}
