// coroutines STEPS PAUSE_US: they call MPI from stacks of their own, which are
// mapped far below that of the main thread, with guard pages.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { COROUTINES = 3, STACK = 1 << 18, GUARD = 4096, LOCALS = 64 };

static ucontext_t main_context, contexts[COROUTINES];
static int rank, size;
static long sum;

static void run(int number)
{
    long locals[LOCALS];
    for (int i = 0; i < LOCALS; i++)
        locals[i] = number * i + rank;
    for (int step = 0;; step++) {
        long mine = 0, others = 0;
        for (int i = 0; i < LOCALS; i++)
            mine += locals[i] += step % 5;
        if (number % 2)
            MPI_Sendrecv(&mine, 1, MPI_LONG, (rank + 1) % size, number, &others, 1, MPI_LONG, (rank + size - 1) % size, number,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Allreduce(&mine, &others, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        sum = (sum * 31 + others) % 1000003;
        swapcontext(&contexts[number], &main_context);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int steps = argc > 1 ? atoi(argv[1]) : 100, pause = argc > 2 ? atoi(argv[2]) : 1000;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < COROUTINES; i++) {
        char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        if (stack == MAP_FAILED || mprotect(stack, GUARD, PROT_NONE) || getcontext(&contexts[i]))
            MPI_Abort(MPI_COMM_WORLD, 1);
        contexts[i].uc_stack.ss_sp = stack;
        contexts[i].uc_stack.ss_size = STACK;
        makecontext(&contexts[i], (void (*)(void))run, 1, i);
    }
    // The only copy of the number of steps is on the main thread's stack.
    for (volatile int step = 0; step < steps; step++) {
        for (int i = 0; i < COROUTINES; i++)
            swapcontext(&main_context, &contexts[(i + step) % COROUTINES]);
        if (rank == 0 && step % 10 == 9) {
            printf("step %d: %ld\n", step, sum);
            fflush(stdout);
        }
        usleep(pause);
    }
    printf("rank %d: %ld\n", rank, sum);
    MPI_Finalize();
    return 0;
}
