/*
 * Descriptors of directories and devices work in every round; a pipe is used in
 * the first round only.
 */
#include "check.h"
#include <fcntl.h>
#include <sys/stat.h>

static int directory, device, ends[2];

static void content(void)
{
    struct stat found;
    char zeros[64] = "not zero";
    CHECK(fstatat(directory, "self", &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(found.st_mode));
    CHECK(read(device, zeros, sizeof zeros) == sizeof zeros && zeros[0] == 0);
    CHECK(round_ > 0 || (write(ends[1], "x", 1) == 1 && read(ends[0], zeros, 1) == 1));
    meet();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    directory = open("/proc", O_RDONLY | O_DIRECTORY);
    device = open("/dev/zero", O_RDONLY);
    if (pipe(ends) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
