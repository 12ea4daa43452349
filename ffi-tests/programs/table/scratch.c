/*
 * Files without a name: tmpfile(3), one that is removed while it is open, like
 * Fortran's scratch files, and one in memory.
 *
 * They grow, are read from their beginning, and sometimes truncated and rewritten. The
 * second one is open twice and locked: data written by one descriptor are read by the
 * other. In addition, a file under a new name is made and removed in each round.
 */
#define _GNU_SOURCE
#include "../check.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { FILES = 3 };

static FILE *files[FILES];
static int again;

/* Writes a line, reads all, and truncates the file: the next data are shorter. */
static long grow(int which)
{
    FILE *file = files[which];
    long sum = 0;
    int value;
    fprintf(file, "%d\n", round_ * (which + 1) + rank);
    rewind(file);
    while (fscanf(file, "%d", &value) == 1)
        sum = sum * 31 + value;
    if (round_ % 2 && round_ / 2 % FILES == which) {
        rewind(file);
        MUST(ftruncate(fileno(file), 0) == 0);
    }
    return sum;
}

static void content(void)
{
    struct flock probe = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    unsigned char written[64];
    char other[] = "other.XXXXXX";
    int descriptor = mkstemp(other);
    MUST(descriptor >= 0 && close(descriptor) == 0 && unlink(other) == 0);
    for (int which = 0; which < FILES; which++)
        say("file %d: %ld", which, grow(which));
    MUST(fcntl(again, F_OFD_GETLK, &probe) == 0 && probe.l_type == F_WRLCK);
    fflush(files[1]);
    ssize_t length = pread(again, written, sizeof written, 0);
    say("by the other descriptor: %.*s", (int)length, (char *)written);
    meet();
}

int main(int argc, char **argv)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char name[] = "scratch.XXXXXX";
    MPI_Init(&argc, &argv);
    files[0] = tmpfile();
    files[1] = fdopen(mkstemp(name), "w+");
    files[2] = fdopen(memfd_create("scratch", 0), "w+");
    again = open(name, O_RDONLY);
    MUST(again >= 0 && unlink(name) == 0 && fcntl(fileno(files[1]), F_SETLK, &whole) == 0);
    run_rounds(argc, argv, content);
    for (int which = 0; which < FILES; which++)
        MUST(fclose(files[which]) == 0);
    MPI_Finalize();
    return 0;
}
