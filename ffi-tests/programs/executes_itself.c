/*
 * executes_itself: every rank executes itself before MPI_Init, without libc.
 *
 *   mpirun -n 4 executes_itself
 *
 * The program calls execve(2) directly, which loses the environment that
 * understudy hides from the program. Without that environment each process could
 * become a job of one rank, which the printed rank and size would show.
 */
#include <mpi.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
    int rank, size;

    if (argc == 1) {
        char *arguments[] = { argv[0], "again", NULL };
        syscall(SYS_execve, "/proc/self/exe", arguments, environ);
        perror("execve");
        return 1;
    }
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("rank %d of %d\n", rank, size);
    MPI_Finalize();
    return 0;
}
