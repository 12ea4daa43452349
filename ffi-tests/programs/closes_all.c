/*
 * closes_all HOW [rounds]: closes all descriptors except the first three before
 * MPI_Init, as programs do that need no inherited descriptors, and all from the first
 * one of understudy on after some checkpoints. HOW is "range" (close_range), "from"
 * (closefrom), "loop" (close) or "call" (syscall).
 */
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum { OF_UNDERSTUDY = 600 };

static const char *how;

static void close_all(int first)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (strcmp(how, "range") == 0)
        close_range(first, ~0u, 0);
    else if (strcmp(how, "from") == 0)
        closefrom(first);
    else if (strcmp(how, "call") == 0)
        syscall(SYS_close_range, first, ~0u, 0);
    else
        for (int fd = first; fd < (int)limit.rlim_cur && fd < 70000; fd++)
            close(fd);
}

static void content(void)
{
    MUST(close(900) == -1 && errno == EBADF);
    if (round_ == 6)
        close_all(OF_UNDERSTUDY);
    meet();
    say("round %d", round_);
}

int main(int argc, char **argv)
{
    how = argv[1];
    close_all(3);
    MPI_Init(&argc, &argv);
    run_rounds(argc - 1, argv + 1, content);
    MPI_Finalize();
    return 0;
}
