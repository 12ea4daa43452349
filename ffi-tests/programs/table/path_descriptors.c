/*
 * Descriptors that represent a name (O_PATH): of a directory, below which files are
 * made, of a file, of a symbolic link, and of a device.
 */
#define _GNU_SOURCE
#include "../check.h"
#include <fcntl.h>
#include <sys/stat.h>

static int directory, file, symbolic, device;

static void content(void)
{
    struct stat about;
    char name[32], target[64] = "";
    snprintf(name, sizeof name, "appended.%d", rank);
    int appended = openat(directory, name, O_CREAT | O_APPEND | O_WRONLY, 0644);
    CHECK(appended >= 0 && write(appended, "x", 1) == 1 && close(appended) == 0);
    meet();
    CHECK(fstatat(directory, name, &about, 0) == 0);
    say("%ld bytes", (long)about.st_size);
    CHECK(fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_size == round_ + 1);
    meet();
    CHECK(readlinkat(symbolic, "", target, sizeof target - 1) > 0 && strcmp(target, name) == 0);
    CHECK(fstat(device, &about) == 0 && S_ISCHR(about.st_mode));
    CHECK(fcntl(directory, F_GETFD) == FD_CLOEXEC && (fcntl(file, F_GETFL) & O_PATH));
}

int main(int argc, char **argv)
{
    char name[32], link_name[32];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(name, sizeof name, "appended.%d", rank);
    snprintf(link_name, sizeof link_name, "link.%d", rank);
    directory = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    close(open(name, O_CREAT | O_TRUNC | O_WRONLY, 0644));
    MUST(symlink(name, link_name) == 0);
    file = open(name, O_PATH);
    symbolic = open(link_name, O_PATH | O_NOFOLLOW);
    device = open("/dev/null", O_PATH);
    run_rounds(argc, argv, content);
    unlink(link_name);
    MPI_Finalize();
    return 0;
}
