/*
 * chatter: every rank prints numbered lines, in pieces of different sizes.
 *
 *   mpirun -n 4 chatter LINES [PAUSE_US] [no-finalize]
 *
 * A collective between the lines keeps the ranks together. With no-finalize the
 * ranks call exit() with output in stdio's buffer.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size;
    long lines = argc > 1 ? atol(argv[1]) : 100, sum = 0;
    useconds_t pause = argc > 2 ? (useconds_t)atol(argv[2]) : 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (long line = 0; line < lines; line++) {
        long all;
        sum += line * (rank + 1);
        MPI_Allreduce(&sum, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        printf("rank %d of %d line %06ld sum %ld %.*s\n", rank, size, line, all, (int)(line * 7 % 60),
               "............................................................");
        /* Every rank flushes at other lines. */
        if (line % (3 + rank) == 0)
            fflush(stdout);
        if (pause)
            usleep(pause);
    }
    if (argc > 3 && strcmp(argv[3], "no-finalize") == 0)
        exit(0);
    MPI_Finalize();
    return 0;
}
