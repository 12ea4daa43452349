/*
 * A rank that sleeps in the kernel without interruption (state D).
 *
 *     blocked [block]
 *
 * With `block`, rank 1 waits in the middle for a child of clone(2) with
 * CLONE_VFORK, in which it cannot be interrupted. The child exits once the file
 * `release` exists. It shares the memory of its parent, and makes system calls
 * of its own only.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char stack[64 << 10];

static int wait_for_release(void *nothing)
{
    struct timespec pause = {.tv_nsec = 10000000};
    (void)nothing;
    while (syscall(SYS_access, "release", F_OK) != 0)
        syscall(SYS_nanosleep, &pause, NULL);
    return 0;
}

int main(int argc, char **argv)
{
    int rank, sum = 0, blocks = argc > 1 && strcmp(argv[1], "block") == 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int step = 0; step < 20; step++) {
        int mine = rank + step + sum % 7;
        if (step == 10 && rank == 1 && blocks) {
            int flags = CLONE_VM | CLONE_VFORK | SIGCHLD;
            int child = clone(wait_for_release, stack + sizeof stack, flags, NULL);
            waitpid(child, NULL, 0);
        }
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0) {
            printf("step %d: %d\n", step, sum);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
