// filelocks STEPS: ranks append to one file in turn, each with a lock of it (flock, fcntl in two ways), which it holds over a
// collective while the others look whether it has that. Besides each holds locks of a file of its own for some steps, and looks whether
// others could take them.
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

enum { WHOLE, PROCESS, DESCRIPTION, WAYS };

static void check(int holds)
{
    if (!holds)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

static int lock(int file, int way, int kind, int start, int length, int waits)
{
    struct flock part = {.l_type = (short)kind, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    if (way == WHOLE)
        return flock(file, (kind == F_UNLCK ? LOCK_UN : kind == F_WRLCK ? LOCK_EX : LOCK_SH) | (waits ? 0 : LOCK_NB));
    if (way == PROCESS)
        return fcntl(file, waits ? F_SETLKW : F_SETLK, &part);
    return fcntl(file, waits ? F_OFD_SETLKW : F_OFD_SETLK, &part);
}

// Whether another process has a record lock of the file.
static int is_locked(int file)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    check(fcntl(file, F_GETLK, &whole) == 0);
    return whole.l_type != F_UNLCK;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size, steps = argc > 1 ? atoi(argv[1]) : 40;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char name[64], line[64];
    snprintf(name, sizeof name, "own.%d", rank);
    int common = open("common", O_RDWR | O_CREAT | O_APPEND, 0644), own = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    // A device is no file that could be synchronised with a disk.
    check(common >= 0 && own >= 0 && open("/dev/null", O_WRONLY) >= 0);
    for (int step = 0; step < steps; step++) {
        int way = step / size % WAYS;
        // Of another file description than the one that has the lock.
        int probe = open(name, O_RDWR), is_free = lock(probe, WHOLE, F_WRLCK, 0, 0, 0) == 0;
        int is_part_free = lock(probe, DESCRIPTION, F_WRLCK, 5, 1, 0) == 0, is_rest_free = lock(probe, DESCRIPTION, F_WRLCK, 20, 0, 0) == 0;
        printf("rank %d step %d: %d %d %d\n", rank, step, is_free, is_part_free, is_rest_free);
        fflush(stdout);
        check(close(probe) == 0);
        if (step % 7 == 2)
            check(lock(own, WHOLE, F_WRLCK, 0, 0, 0) == 0 && lock(own, DESCRIPTION, F_RDLCK, 3, 5, 0) == 0);
        if (step % 7 == 5)
            check(lock(own, WHOLE, F_UNLCK, 0, 0, 0) == 0 && lock(own, DESCRIPTION, F_UNLCK, 0, 0, 0) == 0);
        if (step % size == rank) {
            int length = snprintf(line, sizeof line, "step %d by rank %d\n", step, rank);
            check(lock(common, way, F_WRLCK, 0, 0, 1) == 0 && write(common, line, length) == length);
        }
        MPI_Allreduce(MPI_IN_PLACE, &(int){step}, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        check(step % size == rank || is_locked(common) == (way != WHOLE));
        MPI_Barrier(MPI_COMM_WORLD);
        if (step % size == rank)
            check(lock(common, way, F_UNLCK, 0, 0, 1) == 0);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
