/*
 * files: every rank changes files and names in each step, in all ways that
 * programs use: logs that are opened and closed, checkpoints that rotate, files
 * that are read, truncated, overwritten, exclusively created, removed.
 *
 *   mpirun -n 4 files STEPS [PAUSE_US]
 *
 * Each step depends on the data that it reads, so the final result shows if any
 * step has read files of another moment.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int rank, size;
static long step;

static void fail(const char *what, const char *name)
{
    fprintf(stderr, "rank %d, step %ld: %s %s: %s\n", rank, step, what, name, strerror(errno));
    MPI_Abort(MPI_COMM_WORLD, 3);
}

#define MUST(call, name) do { if ((call) < 0) fail(#call, name); } while (0)

static __attribute__((format(printf, 1, 2))) const char *name(const char *format, ...)
{
    static char names[8][128];
    static int next;
    char *text = names[next++ % 8];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof names[0], format, arguments);
    va_end(arguments);
    return text;
}

static FILE *stream(const char *path, const char *mode)
{
    FILE *file = fopen(path, mode);
    if (!file)
        fail("fopen", path);
    return file;
}

/* Appends a line to a file; returns the new size. */
static long append(const char *path, long value)
{
    FILE *file = stream(path, "a");
    fprintf(file, "step %ld value %ld\n", step, value);
    long end = ftell(file);
    fclose(file);
    return end;
}

/* Reads a number from a file, and replaces the file by one with another number. */
static long count(const char *path, long add)
{
    long value = 0;
    FILE *file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "%ld", &value) != 1)
            fail("fscanf", path);
        fclose(file);
    }
    file = stream(path, "w");
    fprintf(file, "%ld\n", value + add);
    for (long i = 0; i < value % 50; i++)
        fprintf(file, "filling %ld of %ld\n", i, value);
    fclose(file);
    return value;
}

/* ck becomes ck.bak, and a new ck is written. */
static long rotate(const char *directory)
{
    const char *ck = name("%s/ck", directory), *bak = name("%s/ck.bak", directory);
    long value = 0;
    FILE *file = fopen(ck, "r");
    if (file) {
        if (fscanf(file, "%ld", &value) != 1)
            fail("fscanf", ck);
        fclose(file);
        MUST(rename(ck, bak), ck);
    }
    file = stream(ck, "wx");
    fprintf(file, "%ld\n", value + step % 7 + 1);
    fclose(file);
    return value;
}

/* Adds to the numbers of a file in place. */
static long overwrite(const char *path)
{
    long values[64], sum = 0;
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    MUST(fd, path);
    if (read(fd, values, sizeof values) != sizeof values)
        memset(values, 0, sizeof values);
    for (int i = 0; i < 64; i++)
        sum += values[i] += i + step;
    if (pwrite(fd, values, sizeof values, 0) != sizeof values)
        fail("pwrite", path);
    close(fd);
    return sum;
}

/* A file that grows and is truncated, by a name or a descriptor. */
static long cut(const char *path)
{
    struct stat stat;
    append(path, step);
    MUST(lstat(path, &stat), path);
    if (stat.st_size > 2000 && step % 2)
        MUST(truncate(path, 100 + step % 50), path);
    if (stat.st_size > 1500 && step % 3 == 0) {
        int fd = open(path, O_WRONLY);
        MUST(fd, path);
        MUST(ftruncate(fd, 70), path);
        close(fd);
    }
    return stat.st_size;
}

/* A directory with files is made every few steps and removed some steps later. */
static void directories(const char *top)
{
    const char *directory = name("%s/dir%ld", top, step / 5);
    if (step % 5 == 0)
        MUST(mkdir(directory, 0755), directory);
    const char *file = name("%s/file%ld", directory, step);
    int fd = open(file, O_WRONLY | O_CREAT | O_EXCL, 0644);
    MUST(fd, file);
    dprintf(fd, "made in step %ld\n", step);
    close(fd);
    if (step % 5 == 4 && step >= 14 && step / 5 % 3 != 0) {
        directory = name("%s/dir%ld", top, step / 5 - 2);
        for (long i = 0; i < 5; i++) {
            file = name("%s/file%ld", directory, (step / 5 - 2) * 5 + i);
            MUST(i % 2 ? unlink(file) : remove(file), file);
        }
        MUST(rmdir(directory), directory);
    }
}

/* Links are made and removed. */
static void links(const char *top)
{
    const char *link_ = name("%s/current", top), *other = name("%s/hard", top), *ck = name("%s/ck", top);
    if (step % 4 == 0) {
        MUST(symlink(name("ck%ld", step), link_), link_);
        MUST(link(ck, other), other);
    }
    if (step % 4 == 2) {
        MUST(unlink(link_), link_);
        MUST(unlink(other), other);
    }
    const char *scratch = name("%s/scratch", top);
    fclose(stream(scratch, "w"));
    append(scratch, step);
    MUST(unlink(scratch), scratch);
}

int main(int argc, char **argv)
{
    long steps = argc > 1 ? atol(argv[1]) : 100, sum = 0;
    useconds_t pause = argc > 2 ? (useconds_t)atol(argv[2]) : 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *top = strdup(name("rank%d", rank));
    MUST(mkdir(top, 0755), top);
    FILE *open_log = stream(name("%s/open.log", top), "w");
    for (step = 0; step < steps; step++) {
        long all, value = 0;
        value += append(name("%s/log", top), sum);
        value += count(name("%s/count", top), step % 11);
        value += rotate(top);
        value += overwrite(name("%s/numbers", top));
        value += cut(name("%s/cut", top));
        directories(top);
        links(top);
        /* A file of all ranks: each rank in turn, the others wait. */
        if (step % size == rank) {
            value += append("shared.log", sum);
            value += count("shared.count", rank + 1);
        }
        fprintf(open_log, "step %ld value %ld\n", step, value);
        MPI_Allreduce(&value, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        sum += all;
        /* A file created by one rank and written by all. */
        if (rank == 0)
            fclose(stream("together", step % 10 == 0 ? "w" : "r+"));
        MPI_Barrier(MPI_COMM_WORLD);
        int fd = open("together", O_WRONLY);
        MUST(fd, "together");
        if (pwrite(fd, &sum, sizeof sum, (off_t)((step % 10 * size + rank) * sizeof sum)) != sizeof sum)
            fail("pwrite", "together");
        close(fd);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            printf("step %ld sum %ld\n", step, sum);
            fflush(stdout);
        }
        if (pause)
            usleep(pause);
    }
    fclose(open_log);
    MPI_Finalize();
    return 0;
}
