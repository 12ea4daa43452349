/*
 * in_place: every rank reads numbers from its files and writes others over them,
 * in all the ways that programs do: by a descriptor that stays open, by one that
 * is opened anew each time, by streams, by mappings.
 *
 *   mpirun -n 4 in_place STEPS [PAUSE_US]
 *
 * What is written follows from what was read, also by another rank, so a number
 * that was added twice or that is of another moment shows in all that follows.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NUMBERS = 64, BIG = 40000, LENGTH = NUMBERS * sizeof(long) };

static int rank, size;
static long step;

static void fail(const char *what, const char *name)
{
    fprintf(stderr, "rank %d, step %ld: %s %s: %s\n", rank, step, what, name, strerror(errno));
    MPI_Abort(MPI_COMM_WORLD, 3);
}

#define MUST(call, name) do { if ((call) < 0) fail(#call, name); } while (0)
#define ALL(call, count, name) do { if ((call) != (ssize_t)(count)) fail(#call, name); } while (0)

static const char *name(int owner, const char *what)
{
    static char names[8][64];
    static int next;
    char *text = names[next++ % 8];
    snprintf(text, sizeof names[0], "rank%d.%s", owner, what);
    return text;
}

/* A file with so many numbers, all of them the same. */
static const char *filled(const char *path, long count, long value)
{
    FILE *file = fopen(path, "w");
    if (!file)
        fail("fopen", path);
    for (long i = 0; i < count; i++)
        ALL(fwrite(&value, sizeof value, 1, file), 1, path);
    fclose(file);
    return path;
}

static long changed(long *values, long count)
{
    long sum = 0;
    for (long i = 0; i < count; i++)
        sum += values[i] += i % 7 + step;
    return sum;
}

/* One number in the midst of a file, at the place of the descriptor or at a named one. */
static long one_number(int fd, const char *path)
{
    long value, at = step * 5 % NUMBERS * (long)sizeof value;
    ALL(pread(fd, &value, sizeof value, at), sizeof value, path);
    value = value * 3 + step;
    if (step % 3 == 0) {
        MUST(lseek(fd, at, SEEK_SET), path);
        ALL(write(fd, &value, sizeof value), sizeof value, path);
    } else if (step % 3 == 1) {
        struct iovec parts[2] = { { &value, 3 }, { (char *)&value + 3, 5 } };
        ALL(pwritev(fd, parts, 2, at), sizeof value, path);
    } else {
        ALL(pwrite(fd, &value, sizeof value, at), sizeof value, path);
    }
    return value % 1000;
}

/* All numbers, by descriptors that are for reading or for writing, opened each time. */
static long anew(const char *path, long *values, long count)
{
    int fd = open(path, O_RDONLY);
    MUST(fd, path);
    ALL(read(fd, values, count * sizeof *values), count * sizeof *values, path);
    close(fd);
    long sum = changed(values, count);
    fd = open(path, O_WRONLY);
    MUST(fd, path);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET}, seen = lock;
    MUST(fcntl(fd, F_SETLK, &lock), path);
    ALL(write(fd, values, count * sizeof *values), count * sizeof *values, path);
    /* For a lock of the open file that of the process is another one's. */
    MUST(fcntl(fd, F_OFD_GETLK, &seen), path);
    if (seen.l_type == F_UNLCK)
        printf("%s: a lock is gone\n", path);
    close(fd);
    return sum;
}

/* A stream for update. */
static long by_stream(FILE *file, const char *path)
{
    long values[3], at = step * 11 % (NUMBERS - 3) * (long)sizeof *values;
    MUST(fseek(file, at, SEEK_SET), path);
    ALL(fread(values, sizeof *values, 3, file), 3, path);
    long sum = changed(values, 3);
    MUST(fseek(file, at, SEEK_SET), path);
    ALL(fwrite(values, sizeof *values, 3, file), 3, path);
    if (step % 2)
        fflush(file);
    return sum % 1000;
}

/* A file that grows, at the begin of which its length is told. */
static long with_header(FILE *file, const char *path)
{
    fprintf(file, "step %ld\n", step);
    long end = ftell(file);
    rewind(file);
    fprintf(file, "%8ld bytes of %4ld steps", end, step);
    MUST(fseek(file, 0, SEEK_END), path);
    fflush(file);
    return end;
}

static long by_mapping(const char *path)
{
    int fd = open(path, O_RDWR);
    MUST(fd, path);
    long *values = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (values == MAP_FAILED)
        fail("mmap", path);
    long sum = changed(values, NUMBERS);
    munmap(values, LENGTH);
    close(fd);
    return sum;
}

/* What one file has is copied over another one; parts of it are made zero. */
static long copied(int from, int to, const char *path)
{
    off_t start = step * 8 % 160, end = 8 * (step % 5);
    MUST(lseek(to, end, SEEK_SET), path);
    if (copy_file_range(from, &start, to, NULL, 48, 0) != 48)
        fail("copy_file_range", path);
    if (fallocate(to, FALLOC_FL_ZERO_RANGE, 100 + step % 9, 30) && errno != EOPNOTSUPP)
        fail("fallocate", path);
    long values[NUMBERS];
    ALL(pread(to, values, LENGTH, 0), LENGTH, path);
    return changed(values, NUMBERS) % 1000;
}

/* A file that is removed, or replaced, while it is still written. */
static long removed(const char *path)
{
    int fd = open(path, O_RDWR);
    MUST(fd, path);
    long values[NUMBERS];
    ALL(pread(fd, values, LENGTH, 0), LENGTH, path);
    long sum = changed(values, NUMBERS);
    const char *other = name(rank, "other");
    if (step % 2) {
        MUST(unlink(path), path);
    } else {
        filled(other, NUMBERS, sum % 100);
        MUST(rename(other, path), path);
    }
    if (step % 4 < 2)
        MUST(ftruncate(fd, step % 50), path);
    ALL(pwrite(fd, values, LENGTH, 0), LENGTH, path);
    close(fd);
    if (step % 2)
        filled(path, NUMBERS, sum % 100);
    return sum;
}

/* What a neighbour has written. */
static long of_neighbour(const char *what)
{
    const char *path = name((rank + 1) % size, what);
    char bytes[LENGTH];
    long sum = 0;
    int fd = open(path, O_RDONLY);
    MUST(fd, path);
    ssize_t length = read(fd, bytes, sizeof bytes);
    MUST(length, path);
    close(fd);
    for (ssize_t i = 0; i < length; i++)
        sum = (sum * 31 + bytes[i]) % 100003;
    return sum;
}

int main(int argc, char **argv)
{
    long steps = argc > 1 ? atol(argv[1]) : 100, sum = 0;
    useconds_t pause = argc > 2 ? (useconds_t)atol(argv[2]) : 0;
    static long values[BIG];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int state = open(filled(name(rank, "state"), NUMBERS, rank + 1), O_RDWR);
    int twin = dup(state), target = open(filled(name(rank, "target"), NUMBERS, rank), O_RDWR);
    FILE *stream = fopen(filled(name(rank, "stream"), NUMBERS, 2), "r+");
    FILE *header = fopen(name(rank, "header"), "w");
    if (state < 0 || twin < 0 || target < 0 || !stream || !header)
        fail("open", "files");
    fprintf(header, "%40s\n", "");
    filled(name(rank, "anew"), NUMBERS, 3);
    filled(name(rank, "big"), BIG, 4);
    filled(name(rank, "mapped"), NUMBERS, 5);
    filled(name(rank, "removed"), NUMBERS, 6);
    for (step = 0; step < steps; step++) {
        long all, value = 0;
        value += one_number(step % 4 ? state : twin, "state");
        value += anew(name(rank, "anew"), values, NUMBERS);
        if (step % 5 == 0)
            value += anew(name(rank, "big"), values, BIG);
        value += by_stream(stream, "stream");
        value += with_header(header, "header");
        value += by_mapping(name(rank, "mapped"));
        value += copied(state, target, "target");
        value += removed(name(rank, "removed"));
        if (pause)
            usleep(pause);
        MPI_Allreduce(&value, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        value = of_neighbour("state") + of_neighbour("header") + of_neighbour("anew");
        sum = (sum * 7 + all + value) % 1000003;
        if (rank == 0) {
            printf("step %ld sum %ld\n", step, sum);
            fflush(stdout);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    fclose(stream);
    fclose(header);
    close(state);
    close(twin);
    close(target);
    MPI_Finalize();
    return 0;
}
