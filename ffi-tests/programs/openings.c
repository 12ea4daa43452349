// openings KIND STEPS: writes to a file or a pipe by a descriptor that is difficult to
// save. KIND is one of:
//
// - `high`: the descriptor has a high number
// - `many`: the descriptor is one of many
// - `linked`: the file gets a second name in its directory and loses the first
// - `elsewhere`: as `linked`, but the second name is in another directory
// - `packets`: a pipe in packet mode
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void check(int holds)
{
    if (!holds)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    const char *kind = argc > 1 ? argv[1] : "plain";
    int rank, steps = argc > 2 ? atoi(argv[2]) : 40, ends[2] = {-1, -1};
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char name[64], other[64], directory[64], line[64];
    snprintf(name, sizeof name, "out.%d", rank);
    snprintf(directory, sizeof directory, "directory.%d", rank);
    snprintf(other, sizeof other, strcmp(kind, "elsewhere") == 0 ? "directory.%d/new" : "new.%d", rank);
    if (strcmp(kind, "many") == 0)
        for (int i = 0; i < 620; i++)
            check(open("/dev/null", O_RDONLY) >= 0);
    int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    check(file >= 0 && mkdir(directory, 0755) == 0);
    if (strcmp(kind, "high") == 0) {
        int low = file;
        file = fcntl(low, F_DUPFD, 1000);
        check(file >= 1000 && close(low) == 0);
    }
    check(strcmp(kind, "packets") != 0 || pipe2(ends, O_DIRECT) == 0);
    for (int step = 0; step < steps; step++) {
        int has_names = strcmp(kind, "linked") == 0 || strcmp(kind, "elsewhere") == 0;
        if (step == 7 && has_names)
            check(link(name, other) == 0 && unlink(name) == 0);
        int length = snprintf(line, sizeof line, "step %d of rank %d\n", step, rank);
        check(write(file, line, length) == length);
        if (ends[0] >= 0)
            check(write(ends[1], line, length) == length && read(ends[0], line, sizeof line) == length);
        MPI_Allreduce(MPI_IN_PLACE, &(int){step}, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    printf("rank %d is done\n", rank);
    MPI_Finalize();
    return 0;
}
