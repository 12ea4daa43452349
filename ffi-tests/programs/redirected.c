// redirected STEPS: redirects its standard output to /dev/null, to a file and to a pipe
// for a step or two. A duplicate of the original descriptor is kept, from which standard
// output is restored. At some steps standard output is closed.
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int keep = -1, ends[2] = {-1, -1};

static void check(int holds)
{
    if (!holds)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

static void lead_to(int other)
{
    fflush(stdout);
    keep = dup(STDOUT_FILENO);
    check(keep >= 0 && other >= 0 && dup2(other, STDOUT_FILENO) == STDOUT_FILENO && close(other) == 0);
}

static void lead_back(void)
{
    fflush(stdout);
    check(dup2(keep, STDOUT_FILENO) == STDOUT_FILENO && close(keep) == 0);
    keep = -1;
}

int main(int argc, char **argv)
{
    enum { PLAIN, NOTHING, FILE_BEGINS, FILE_GOES_ON, PIPE, CLOSED, KINDS };
    MPI_Init(&argc, &argv);
    int rank, steps = argc > 1 ? atoi(argv[1]) : 60;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char name[64], line[128];
    snprintf(name, sizeof name, "led.%d", rank);
    for (int step = 0; step < steps; step++) {
        switch (step % KINDS) {
        case NOTHING:
            lead_to(open("/dev/null", O_WRONLY));
            break;
        case FILE_BEGINS:
            lead_back();
            lead_to(open(name, O_WRONLY | O_CREAT | O_APPEND, 0644));
            break;
        case PIPE:
            lead_back();
            check(pipe(ends) == 0);
            lead_to(ends[1]);
            break;
        case CLOSED:
            lead_back();
            ssize_t length = read(ends[0], line, sizeof line);
            check(length > 0 && close(ends[0]) == 0);
            printf("rank %d has caught: %.*s", rank, (int)length, line);
            fflush(stdout);
            keep = dup(STDOUT_FILENO);
            check(close(STDOUT_FILENO) == 0);
            break;
        case PLAIN:
            if (keep >= 0)
                lead_back();
            break;
        }
        if (step % KINDS != CLOSED)
            printf("step %d of rank %d\n", step, rank);
        fflush(stdout);
        MPI_Allreduce(MPI_IN_PLACE, &(int){step}, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        int length = snprintf(line, sizeof line, "rank %d has kept its output in step %d\n", rank, step);
        check(keep < 0 || write(keep, line, length) == length);
    }
    MPI_Finalize();
    return 0;
}
