/*
 * A phase without a collective over all workers: lull HOW SECONDS.
 *
 * HOW is `talk`: all ranks send to their neighbours; `compute`: rank 1 computes, and
 * the others wait for it in MPI_Allreduce; or `write`: rank 1 writes files after a
 * barrier.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int rank, size;

/* Not inlined, since a message is to name it. */
static __attribute__((noinline)) double exchange(double out)
{
    double in;
    MPI_Sendrecv(&out, 1, MPI_DOUBLE, (rank + 1) % size, 1, &in, 1, MPI_DOUBLE, (rank + size - 1) % size, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    return in;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void write_files(double end)
{
    while (now() < end) {
        FILE *file = fopen("lull.txt", "w");
        fputs("a line\n", file);
        fclose(file);
        usleep(1000);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double seconds = atof(argv[2]), begin = MPI_Wtime(), on = 1;
    if (strcmp(argv[1], "talk") == 0) {
        /*
         * Rank 0 decides if the phase continues. The decision reaches every other rank
         * after as many messages as there are ranks.
         */
        while (on > 0) {
            if (rank == 0)
                on = MPI_Wtime() - begin < seconds;
            for (int i = 0; i < size; i++) {
                double came = exchange(on);
                if (rank != 0)
                    on = came;
            }
        }
    } else if (strcmp(argv[1], "write") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1)
            write_files(now() + seconds);
    } else if (rank == 1) {
        volatile double x = 1;
        while (MPI_Wtime() - begin < seconds)
            for (int i = 0; i < 1000000; i++)
                x = x * 0.999999 + 1e-6;
    }
    int one = 1, all;
    MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("lull: done, %d\n", all);
    MPI_Finalize();
    return 0;
}
