/*
 * waiting: rank 0 sleeps for some seconds outside MPI, or until a file exists, while
 * the others wait for its message in MPI_Recv.
 *
 *   mpirun -n 2 waiting SECONDS|FILE
 */
#include <ctype.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int __attribute__((noinline)) wait_for_message(void)
{
    int value = 0;
    MPI_Recv(&value, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return value + 1;
}

static void pass_time(const char *how)
{
    if (isdigit((unsigned char)*how))
        sleep((unsigned)atoi(how));
    else
        while (access(how, F_OK) != 0)
            usleep(1000);
}

int main(int argc, char **argv)
{
    int rank, size, value = 41;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) {
        pass_time(argc > 1 ? argv[1] : "1");
        for (int other = 1; other < size; other++)
            MPI_Send(&value, 1, MPI_INT, other, 7, MPI_COMM_WORLD);
    } else {
        value = wait_for_message();
    }
    MPI_Reduce(rank == 0 ? MPI_IN_PLACE : &value, &value, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks, %d\n", size, value);
    MPI_Finalize();
    return 0;
}
