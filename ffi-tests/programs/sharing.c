/*
 * sharing own|common: each rank maps a file of its own into memory, or all ranks map a
 * common one, and numbers are added up in it.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size;
    char name[256];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int common = argc > 1 && strcmp(argv[1], "common") == 0;
    snprintf(name, sizeof name, "memory.%d", common ? 0 : rank);
    int fd = open(name, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 1 << 16) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    double *memory = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    for (int round = 0; round < 60; round++) {
        double value = memory[rank] + round * (rank + 1), sum;
        MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        memory[rank] = sum / size;
        if (rank == 0)
            printf("round %d: %.17g\n", round, sum);
        fflush(stdout);
        usleep(10000);
    }
    MPI_Finalize();
    return 0;
}
