/*
 * phase: operations of the set-up phase that set-up logs must support.
 *
 *   mpirun -n 4 phase COLLECTIVES attach|pack|tests|clock|files|large|calls
 *
 * - attach: a buffer of 20 MB for MPI_Bsend
 * - pack: many small items packed into a buffer of 4 MB
 * - tests: two places that test in turn, without success
 * - clock: a clock is read repeatedly
 * - files: files are searched, inspected and read
 * - large: a file of some length is read
 * - calls: files are made and changed by system calls that libc does not make
 *
 * The files are not used later.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CELLS = 100000, ATTACHED = 20000000, PACKED = 4000000, ITEMS = 500, POLLS = 50000 };

static double table_[CELLS];

static double attach(int rank, int size)
{
    char *buffer = malloc(ATTACHED);
    double mine = rank + 0.5, got;
    MPI_Buffer_attach(buffer, ATTACHED);
    MPI_Bsend(&mine, 1, MPI_DOUBLE, (rank + 1) % size, 1, MPI_COMM_WORLD);
    MPI_Recv(&got, 1, MPI_DOUBLE, (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Buffer_detach(&buffer, &(int){ 0 });
    MPI_Buffer_attach(buffer, ATTACHED);
    return got;
}

static double pack(int rank)
{
    char *buffer = malloc(PACKED);
    int at = 0;
    double out = 0;
    for (int item = 0; item < ITEMS; item++) {
        double value = rank + item;
        MPI_Pack(&value, 1, MPI_DOUBLE, buffer, PACKED, &at, MPI_COMM_WORLD);
    }
    at = 8 * (ITEMS - 1);
    MPI_Unpack(buffer, PACKED, &at, &out, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    free(buffer);
    return out;
}

static double tests(int rank)
{
    MPI_Request first[2], second[2];
    int in[4], index, flag;
    for (int i = 0; i < 2; i++) {
        MPI_Irecv(&in[i], 1, MPI_INT, rank ^ 1, 1 + i, MPI_COMM_WORLD, &first[i]);
        MPI_Irecv(&in[2 + i], 1, MPI_INT, rank ^ 1, 5 + i, MPI_COMM_WORLD, &second[i]);
    }
    for (int poll = 0; poll < POLLS; poll++) {
        MPI_Testany(2, first, &index, &flag, MPI_STATUS_IGNORE);
        MPI_Testany(2, second, &index, &flag, MPI_STATUS_IGNORE);
    }
    /* When this exchange ends, both ranks have polled: no message arrives during the polls. */
    MPI_Sendrecv(&rank, 1, MPI_INT, rank ^ 1, 9, &index, 1, MPI_INT, rank ^ 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 2; i++) {
        MPI_Send(&rank, 1, MPI_INT, rank ^ 1, 1 + i, MPI_COMM_WORLD);
        MPI_Send(&rank, 1, MPI_INT, rank ^ 1, 5 + i, MPI_COMM_WORLD);
    }
    MPI_Waitall(2, first, MPI_STATUSES_IGNORE);
    MPI_Waitall(2, second, MPI_STATUSES_IGNORE);
    return in[0] + in[3];
}

static double clock_(void)
{
    double last = 0;
    for (int poll = 0; poll < POLLS; poll++)
        last = MPI_Wtime();
    return last > 0;
}

/* Which files exist, the length of one, and its first bytes. */
static double files(void)
{
    double found = access("restart", F_OK) == 0;
    struct stat about;
    found = 2 * found + (stat("STOP", &about) == 0);
    found = 2 * found + (stat("gone", &about) == 0 ? about.st_size : 0);
    FILE *none = fopen("parameters", "r");
    found = 2 * found + (none != NULL);
    if (none)
        fclose(none);
    DIR *directory = opendir(".");
    struct dirent *entry;
    while ((entry = readdir(directory)))
        found += !strcmp(entry->d_name, "STOP") + 4 * !strcmp(entry->d_name, "gone");
    closedir(directory);
    double number = 0;
    FILE *status = fopen("status", "r");
    if (!status || fscanf(status, "%lf", &number) != 1)
        MPI_Abort(MPI_COMM_WORLD, 1);
    fclose(status);
    int again = open("status", O_RDONLY);
    char text[8] = "";
    if (again < 0 || pread(again, text, 4, 0) != 4)
        MPI_Abort(MPI_COMM_WORLD, 1);
    fstat(again, &about);
    close(again);
    return found + number + atof(text) + about.st_size;
}

static double large(void)
{
    double sum = 0, number;
    FILE *input = fopen("large", "r");
    while (input && fscanf(input, "%lf", &number) == 1)
        sum += number;
    fclose(input);
    return sum;
}

static double calls(int rank)
{
    char name[32];
    snprintf(name, sizeof name, "made.%d", rank);
    struct open_how how = { .flags = O_WRONLY | O_CREAT | O_TRUNC, .mode = 0600 };
    int made = syscall(SYS_openat2, AT_FDCWD, name, &how, sizeof how);
    if (made < 0 || write(made, "set up\n", 7) != 7)
        MPI_Abort(MPI_COMM_WORLD, 1);
    close(made);
    return 1;
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int collectives = argc > 1 ? atoi(argv[1]) : 100;
    const char *what = argc > 2 ? argv[2] : "files";

    double seed = !strcmp(what, "attach")  ? attach(rank, size)
                  : !strcmp(what, "pack")  ? pack(rank)
                  : !strcmp(what, "tests") ? tests(rank)
                  : !strcmp(what, "clock") ? clock_()
                  : !strcmp(what, "large") ? large()
                  : !strcmp(what, "calls") ? calls(rank)
                                           : files();
    for (int cell = 0; cell < CELLS; cell++)
        table_[cell] = (1 + seed) / (1 + cell + rank);

    double sum = 1;
    for (int step = 0; step < collectives; step++) {
        double own = table_[step % CELLS] * sum / size;
        MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        sum = 1 + sum / (1 + sum);
    }
    if (rank == 0)
        printf("%d ranks: %.17g\n", size, sum);
    MPI_Finalize();
    return 0;
}
