/*
 * Coroutines that call MPI from their own stacks, which are mapped far below that of
 * the main thread, with guard pages.
 */
#include "../check.h"
#include <sys/mman.h>
#include <ucontext.h>

enum { COROUTINES = 3, STACK = 1 << 18, GUARD = 4096, LOCALS = 64 };

static ucontext_t main_context, contexts[COROUTINES];
static long sum;

static void run(int number)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    long locals[LOCALS];
    for (int i = 0; i < LOCALS; i++)
        locals[i] = number * i + rank;
    for (int step = 0;; step++) {
        long mine = 0, others = 0;
        for (int i = 0; i < LOCALS; i++)
            mine += locals[i] += step % 5;
        if (number % 2)
            MPI_Sendrecv(&mine, 1, MPI_LONG, right, number, &others, 1, MPI_LONG, left, number,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Allreduce(&mine, &others, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        sum = (sum * 31 + others) % 1000003;
        swapcontext(&contexts[number], &main_context);
    }
}

static void content(void)
{
    /* These variables are only on the main thread's stack. */
    volatile int first = round_, i;
    for (i = 0; i < COROUTINES; i++)
        swapcontext(&main_context, &contexts[(i + first) % COROUTINES]);
    say("round %d: %ld", first, sum);
}

static void make_stack(int number)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK;
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, flags, -1, 0);
    MUST(stack != MAP_FAILED && mprotect(stack, GUARD, PROT_NONE) == 0);
    MUST(getcontext(&contexts[number]) == 0);
    contexts[number].uc_stack.ss_sp = stack;
    contexts[number].uc_stack.ss_size = STACK;
    makecontext(&contexts[number], (void (*)(void))run, 1, number);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    for (int number = 0; number < COROUTINES; number++)
        make_stack(number);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
