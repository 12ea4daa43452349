/*
 * File locks: ranks append to one file in turn, each with a lock on it (flock, fcntl in
 * two ways). Each holds the lock over a collective while the others check that it does.
 *
 * In addition, each rank holds locks on its own file for some rounds, and checks if
 * other processes could take them.
 */
#define _GNU_SOURCE
#include "../check.h"
#include <fcntl.h>
#include <sys/file.h>

enum { WHOLE, PROCESS, DESCRIPTION, WAYS };

static int common, own;
static char name[64];

static int lock(int file, int way, int kind, int start, int length, int waits)
{
    struct flock part = {.l_type = (short)kind, .l_start = start, .l_len = length};
    if (way == WHOLE) {
        int operation = kind == F_UNLCK ? LOCK_UN : kind == F_WRLCK ? LOCK_EX : LOCK_SH;
        return flock(file, operation | (waits ? 0 : LOCK_NB));
    }
    if (way == PROCESS)
        return fcntl(file, waits ? F_SETLKW : F_SETLK, &part);
    return fcntl(file, waits ? F_OFD_SETLKW : F_OFD_SETLK, &part);
}

/* True if another process has a record lock on the file. */
static int is_locked(int file)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    MUST(fcntl(file, F_GETLK, &whole) == 0);
    return whole.l_type != F_UNLCK;
}

/* Tries another file description than the one that has the locks. */
static void probe(void)
{
    int other = open(name, O_RDWR), is_free = lock(other, WHOLE, F_WRLCK, 0, 0, 0) == 0;
    int is_part_free = lock(other, DESCRIPTION, F_WRLCK, 5, 1, 0) == 0;
    int is_rest_free = lock(other, DESCRIPTION, F_WRLCK, 20, 0, 0) == 0;
    say("free: %d, a part: %d, the rest: %d", is_free, is_part_free, is_rest_free);
    MUST(close(other) == 0);
}

static void content(void)
{
    int way = round_ / size % WAYS, is_mine = round_ % size == rank;
    probe();
    if (round_ % 7 == 2) {
        MUST(lock(own, WHOLE, F_WRLCK, 0, 0, 0) == 0);
        MUST(lock(own, DESCRIPTION, F_RDLCK, 3, 5, 0) == 0);
    }
    if (round_ % 7 == 5) {
        MUST(lock(own, WHOLE, F_UNLCK, 0, 0, 0) == 0);
        MUST(lock(own, DESCRIPTION, F_UNLCK, 0, 0, 0) == 0);
    }
    if (is_mine)
        MUST(lock(common, way, F_WRLCK, 0, 0, 1) == 0 && dprintf(common, "round %d\n", round_) > 0);
    meet();
    MUST(is_mine || is_locked(common) == (way != WHOLE));
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_mine)
        MUST(lock(common, way, F_UNLCK, 0, 0, 1) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(name, sizeof name, "own.%d", rank);
    common = open("common", O_RDWR | O_CREAT | O_APPEND, 0644);
    own = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    /* A device is a file that cannot be synchronised with a disk. */
    MUST(common >= 0 && own >= 0 && open("/dev/null", O_WRONLY) >= 0);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
