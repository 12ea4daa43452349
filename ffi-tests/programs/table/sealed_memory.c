/*
 * Files in memory (memfd_create) with seals: one that is sealed before the rounds, one
 * in the middle, and one that never gets a seal. Names and modes stay, too.
 */
#define _GNU_SOURCE
#include "../check.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

static int sealed, later, open_file;

static void say_file(const char *what, int file)
{
    char path[64], name[64] = "", text[32] = "";
    struct stat about;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    MUST(readlink(path, name, sizeof name - 1) > 0 && fstat(file, &about) == 0);
    MUST(pread(file, text, sizeof text - 1, 0) >= 0);
    say("%s: %s, seals %d, mode %o, content %s", what, name, fcntl(file, F_GET_SEALS), about.st_mode & 0777, text);
}

static void content(void)
{
    char text[32];
    int length = snprintf(text, sizeof text, "round %d", round_);
    CHECK(pwrite(sealed, text, length, 0) == -1 && errno == EPERM);
    CHECK(pwrite(open_file, text, length, 0) == length);
    if (round_ < 5)
        CHECK(pwrite(later, text, length, 0) == length);
    meet();
    if (round_ == 5)
        CHECK(fcntl(later, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SEAL) == 0 && fchmod(later, 0500) == 0);
    say_file("sealed", sealed);
    meet();
    say_file("later", later);
    say_file("open", open_file);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    sealed = memfd_create("sealed", MFD_ALLOW_SEALING);
    MUST(write(sealed, "sealed", 6) == 6);
    MUST(fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0);
    later = memfd_create("later", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    open_file = memfd_create("open", 0);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
