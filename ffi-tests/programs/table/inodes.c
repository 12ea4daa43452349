/*
 * Attributes of inodes that the program changes in each round: mode, times, owner,
 * extended attributes. The inodes are those of open files, of names, of a directory, of
 * a symbolic link, and of a file that is also written, or read-only.
 */
#define _GNU_SOURCE
#include "../check.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

static char names[4][32];
static int file;
enum { FILE_, DIRECTORY, LINK, WRITTEN };

static void say_attributes(int which)
{
    struct stat about;
    char value[32] = "none";
    MUST(lstat(names[which], &about) == 0);
    if (lgetxattr(names[which], "user.round", value, sizeof value - 1) < 0)
        strcpy(value, "none");
    say("%s: mode %o, owner %d, group %d, modified %ld.%09ld, size %ld, attribute %s", names[which], about.st_mode & 07777,
        (int)about.st_uid, (int)about.st_gid, (long)about.st_mtim.tv_sec, about.st_mtim.tv_nsec,
        S_ISREG(about.st_mode) ? (long)about.st_size : 0, value);
}

static void set_times(const char *name, int descriptor, long seconds)
{
    struct timespec times[2] = {{seconds, 1}, {seconds, 2}};
    MUST((name ? utimensat(AT_FDCWD, name, times, AT_SYMLINK_NOFOLLOW) : futimens(descriptor, times)) == 0);
}

static void change(void)
{
    char value[32];
    int written;
    snprintf(value, sizeof value, "%d", round_);
    MUST(fchmod(file, 0600 | (round_ & 077)) == 0 && chmod(names[DIRECTORY], 0700 | (round_ & 07)) == 0);
    if (round_ % 3 == 2)
        fremovexattr(file, "user.round");
    else
        fsetxattr(file, "user.round", value, strlen(value) + 1, 0);
    setxattr(names[DIRECTORY], "user.round", value, strlen(value) + 1, 0);
    if (geteuid() == 0)
        MUST(fchown(file, 1000 + round_, 2000 + round_) == 0 && lchown(names[LINK], round_, round_) == 0);
    meet();
    MUST(chmod(names[WRITTEN], 0644) == 0);
    written = open(names[WRITTEN], O_WRONLY | (round_ % 4 == 3 ? O_TRUNC : O_APPEND));
    MUST(written >= 0 && write(written, "x", 1) == 1);
    meet();
    MUST(fchmod(written, 0444) == 0);
    set_times(NULL, written, 4000 + round_);
    MUST(close(written) == 0);
    set_times(NULL, file, 1000 + round_);
    set_times(names[DIRECTORY], -1, 2000 + round_);
    set_times(names[LINK], -1, 3000 + round_);
}

static void content(void)
{
    for (int which = 0; which < 4; which++)
        say_attributes(which);
    change();
    meet();
}

int main(int argc, char **argv)
{
    const char *const forms[] = {"file.%d", "directory.%d", "link.%d", "written.%d"};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int which = 0; which < 4; which++)
        snprintf(names[which], sizeof names[which], forms[which], rank);
    file = open(names[FILE_], O_RDWR | O_CREAT | O_TRUNC, 0600);
    MUST(mkdir(names[DIRECTORY], 0700) == 0 && symlink("nowhere", names[LINK]) == 0);
    close(open(names[WRITTEN], O_RDWR | O_CREAT | O_TRUNC, 0600));
    for (int which = 0; which < 4; which++)
        set_times(names[which], -1, 1000000000);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
