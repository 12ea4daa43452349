/*
 * Prints times, whose length differs in every run: times STEPS BLOCKS.
 *
 * The program has STEPS collectives, at which checkpoints occur. Then it prints a report
 * of BLOCKS blocks, each with a time and a sum, between messages around a ring. No
 * checkpoint occurs in the report.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void print_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("took %.*f s\n", (int)(now.tv_nsec / 7 % 40), now.tv_nsec * 1e-9);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size, steps = argc > 1 ? atoi(argv[1]) : 50, blocks = argc > 2 ? atoi(argv[2]) : 20;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long sum = rank;
    for (int step = 0; step < steps; step++) {
        long mine = sum % 1000003 + rank * step;
        MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    }
    for (int block = 0; block < blocks; block++) {
        long from_left = 0;
        MPI_Sendrecv(&sum, 1, MPI_LONG, (rank + 1) % size, 0, &from_left, 1, MPI_LONG, (rank + size - 1) % size, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum = sum * 31 % 1000003 + from_left;
        if (rank == 0) {
            print_time();
            printf("block %d of %d: sum %ld\n", block, blocks, sum);
            fflush(stdout);
        }
    }
    if (rank == 0)
        printf("done\n");
    MPI_Finalize();
    return 0;
}
