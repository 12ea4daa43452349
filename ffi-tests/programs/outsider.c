/* Rank 1 makes, changes or removes a file and then waits, so that a test can act on the
 * file and kill rank 1.
 *
 *   outsider make|change|remove FILE
 *
 * Rank 1 writes its PID to "pid" at the beginning. After 50 reductions it acts on FILE,
 * makes the file "acted", and waits until a file "killed" exists. Prints the sum of the
 * reductions and the content of FILE. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BEFORE = 50, AFTER = 10 };

static void put(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0) {
        perror(path);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void act(const char *what, const char *path) {
    if (strcmp(what, "remove") == 0)
        remove(path);
    else
        put(path, "of the job\n");
    put("acted", "");
    while (access("killed", F_OK) != 0)
        usleep(10000);
}

static long reduce(int rank, int times) {
    long sum = 0;
    for (int i = 0; i < times; i++) {
        long part = (long)rank * i, all;
        MPI_Allreduce(&part, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        sum += all;
    }
    return sum;
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 3) {
        fprintf(stderr, "outsider make|change|remove FILE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (rank == 1) {
        char pid[32];
        snprintf(pid, sizeof pid, "%d\n", (int)getpid());
        put("pid", pid);
    }
    long sum = reduce(rank, BEFORE);
    if (rank == 1)
        act(argv[1], argv[2]);
    sum += reduce(rank, AFTER);
    if (rank == 0) {
        char line[64] = "nothing\n";
        FILE *file = fopen(argv[2], "r");
        if (file) {
            if (!fgets(line, sizeof line, file))
                strcpy(line, "no line\n");
            fclose(file);
        }
        printf("sum %ld, the file holds %s", sum, line);
    }
    MPI_Finalize();
    return 0;
}
