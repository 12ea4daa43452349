/*
 * Files of /proc that describe the process itself, and devices without state, open over
 * all rounds.
 */
#define _GNU_SOURCE
#include "../check.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

static const char *const names[] = {
    "/proc/self/statm", "/proc/self/environ", "/proc/self/task", "/proc/thread-self/comm", "/proc/meminfo",
    "/dev/full", "/dev/random", "/dev/urandom",
};
enum { FILES = sizeof names / sizeof *names };
static int files[FILES];

static void content(void)
{
    char text[256];
    struct stat about;
    for (int i = 0; i < FILES; i++) {
        MUST(fstat(files[i], &about) == 0);
        ssize_t length = S_ISDIR(about.st_mode) ? 1 : pread(files[i], text, sizeof text, 0);
        say("%s: %s", names[i], length > 0 ? "is read" : "is not read");
        if (i % 3 == 0)
            meet();
    }
    CHECK(faccessat(files[2], "../statm", R_OK, 0) == 0);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    for (int i = 0; i < FILES; i++)
        MUST((files[i] = open(names[i], O_RDONLY)) >= 0);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
