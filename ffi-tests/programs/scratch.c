// scratch STEPS PAUSE_US: files that have no name: tmpfile(3), one that is
// removed while it is open, as Fortran's scratch files are, and one in memory.
// They grow, are read from their beginning, and now and then cut and written anew.
// The second one is open twice and locked: what is written by one descriptor is read by the other.
// Besides, a file under a new name comes and goes in each step.
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FILES = 3 };

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, steps = argc > 1 ? atoi(argv[1]) : 100, pause = argc > 2 ? atoi(argv[2]) : 1000;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char name[] = "scratch.XXXXXX";
    FILE *files[FILES] = {tmpfile(), fdopen(mkstemp(name), "w+"), fdopen(memfd_create("scratch", 0), "w+")};
    int again = open(name, O_RDONLY);
    if (again < 0 || unlink(name))
        MPI_Abort(MPI_COMM_WORLD, 2);
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fileno(files[1]), F_SETLK, &whole))
        MPI_Abort(MPI_COMM_WORLD, 3);
    for (int step = 0; step < steps; step++) {
        long sum = step;
        char other[] = "other.XXXXXX";
        int descriptor = mkstemp(other);
        if (descriptor < 0 || close(descriptor) || unlink(other))
            MPI_Abort(MPI_COMM_WORLD, 2);
        for (int i = 0; i < FILES; i++) {
            fprintf(files[i], "%d\n", step * (i + 1) + rank);
            if (step % 10 == 9) {
                int value;
                rewind(files[i]);
                while (fscanf(files[i], "%d", &value) == 1)
                    sum = sum * 31 + value;
                // What is written next is shorter than what was there.
                if (step % 40 == 29 + 10 * (i == 2) && (rewind(files[i]), ftruncate(fileno(files[i]), 0)))
                    MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
        struct flock probe = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
        if (fcntl(again, F_OFD_GETLK, &probe) || probe.l_type != F_WRLCK)
            MPI_Abort(MPI_COMM_WORLD, 3);
        unsigned char written[64];
        fflush(files[1]);
        for (long n = pread(again, written, sizeof written, 0), i = 0; i < n; i++)
            sum = sum * 31 + written[i];
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_LONG, MPI_BXOR, MPI_COMM_WORLD);
        if (rank == 0 && step % 10 == 9) {
            printf("step %d: %ld\n", step, sum);
            fflush(stdout);
        }
        usleep(pause);
    }
    for (int i = 0; i < FILES; i++)
        if (!files[i] || fclose(files[i]))
            MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
    return 0;
}
