// clearing STEPS PAUSE_US: fills directories, and later empties them as it lists
// them, as std::filesystem::remove_all does.
#include <dirent.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 12, AGE = 10, MOST = 10000 };

static void check(int holds)
{
    if (!holds)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

static void fill(const char *name)
{
    check(mkdir(name, 0755) == 0);
    int directory = open(name, O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < FILES; i++) {
        char file[20];
        snprintf(file, sizeof file, "file%d", i);
        int descriptor = openat(directory, file, O_WRONLY | O_CREAT | O_EXCL, 0644);
        check(descriptor >= 0 && write(descriptor, file, strlen(file)) > 0 && close(descriptor) == 0);
    }
    close(directory);
}

static void clear(const char *name)
{
    DIR *directory = opendir(name);
    check(directory != NULL);
    struct dirent *entry;
    for (int removed = 0; (entry = readdir(directory)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        check(unlinkat(dirfd(directory), entry->d_name, 0) == 0 && ++removed < MOST);
        // Whoever wants to be sure begins again.
        rewinddir(directory);
    }
    check(closedir(directory) == 0 && rmdir(name) == 0);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, steps = argc > 1 ? atoi(argv[1]) : 100, pause = argc > 2 ? atoi(argv[2]) : 1000;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int step = 0; step < steps; step++) {
        char name[50];
        snprintf(name, sizeof name, "directory.%d.%d", rank, step);
        fill(name);
        if (step >= AGE) {
            snprintf(name, sizeof name, "directory.%d.%d", rank, step - AGE);
            clear(name);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            printf("step %d\n", step);
            fflush(stdout);
        }
        usleep(pause);
    }
    MPI_Finalize();
    return 0;
}
