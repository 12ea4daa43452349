/*
 * Child processes: each rank starts a child in each round and waits for any of its
 * children, while other ranks fail.
 *
 * The child of the last rank takes long, so that it runs when another rank fails.
 */
#define _GNU_SOURCE
#include "../check.h"
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

static int ended;

static void end(int signal)
{
    ended += signal == SIGCHLD;
}

static void content(void)
{
    pid_t child = fork();
    if (child == 0) {
        /* The child has a child of its own, which exits at about the same time. */
        if (round_ % 2 == 0 && fork() == 0)
            execlp("sleep", "sleep", rank == size - 1 ? "0.1" : "0", NULL);
        usleep(rank == size - 1 ? 100000 : 0);
        _exit(round_);
    }
    int status;
    pid_t waited;
    while ((waited = wait(&status)) < 0 && errno == EINTR)
        ;
    say("the %s child has ended with %d", waited == child ? "last" : "wrong", WEXITSTATUS(status));
    say("%d have ended, and there is %s", ended, wait(&status) < 0 ? "no other" : "another");
    meet();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    signal(SIGCHLD, end);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
