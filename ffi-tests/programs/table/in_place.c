/*
 * Numbers that every rank reads from its files and overwrites, in all ways that
 * programs use: by a descriptor that stays open, by one that is opened each time, by
 * streams, by mappings.
 *
 * The written numbers depend on those that were read, also by another rank. A number
 * that was added twice, or that was read in the state of another moment, would change
 * all later numbers.
 */
#define _GNU_SOURCE
#include "../check.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

enum { NUMBERS = 64, BIG = 40000, LENGTH = NUMBERS * sizeof(long) };

static int state, twin, target;
static FILE *stream, *header;
static long total;

/* True if a call has transferred all bytes or elements. */
static int is_all(ssize_t moved, size_t wanted)
{
    return moved == (ssize_t)wanted;
}

static const char *name(int owner, const char *what)
{
    static char names[8][64];
    static int next;
    char *text = names[next++ % 8];
    snprintf(text, sizeof names[0], "rank%d.%s", owner, what);
    return text;
}

/* Makes a file with `count` equal numbers. */
static const char *filled(const char *path, long count, long value)
{
    FILE *file = fopen(path, "w");
    MUST(file != NULL);
    for (long i = 0; i < count; i++)
        MUST(is_all(fwrite(&value, sizeof value, 1, file), 1));
    fclose(file);
    return path;
}

static long changed(long *values, long count)
{
    long sum = 0;
    for (long i = 0; i < count; i++)
        sum += values[i] += i % 7 + round_;
    return sum;
}

/* One number within a file, at the position of the descriptor or at a given one. */
static long one_number(int fd)
{
    long value, at = round_ * 5 % NUMBERS * (long)sizeof value;
    MUST(is_all(pread(fd, &value, sizeof value, at), sizeof value));
    value = value * 3 + round_;
    if (round_ % 3 == 0) {
        MUST(lseek(fd, at, SEEK_SET) >= 0);
        MUST(is_all(write(fd, &value, sizeof value), sizeof value));
    } else if (round_ % 3 == 1) {
        struct iovec parts[2] = { { &value, 3 }, { (char *)&value + 3, 5 } };
        MUST(is_all(pwritev(fd, parts, 2, at), sizeof value));
    } else {
        MUST(is_all(pwrite(fd, &value, sizeof value, at), sizeof value));
    }
    return value % 1000;
}

/* All numbers, by descriptors for reading or for writing, opened each time. */
static long anew(const char *path, long *values, long count)
{
    int fd = open(path, O_RDONLY);
    MUST(fd >= 0);
    MUST(is_all(read(fd, values, count * sizeof *values), count * sizeof *values));
    close(fd);
    long sum = changed(values, count);
    fd = open(path, O_WRONLY);
    MUST(fd >= 0);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET}, seen = lock;
    MUST(fcntl(fd, F_SETLK, &lock) >= 0);
    MUST(is_all(write(fd, values, count * sizeof *values), count * sizeof *values));
    /* A lock of an open file description conflicts with the process's own record lock. */
    MUST(fcntl(fd, F_OFD_GETLK, &seen) >= 0);
    CHECK(seen.l_type != F_UNLCK);
    close(fd);
    return sum;
}

/* A stream for update. */
static long by_stream(FILE *file)
{
    long values[3], at = round_ * 11 % (NUMBERS - 3) * (long)sizeof *values;
    MUST(fseek(file, at, SEEK_SET) >= 0);
    MUST(is_all(fread(values, sizeof *values, 3, file), 3));
    long sum = changed(values, 3);
    MUST(fseek(file, at, SEEK_SET) >= 0);
    MUST(is_all(fwrite(values, sizeof *values, 3, file), 3));
    if (round_ % 2)
        fflush(file);
    return sum % 1000;
}

/* A growing file whose header contains its length. */
static long with_header(FILE *file)
{
    fprintf(file, "step %d\n", round_);
    long end = ftell(file);
    rewind(file);
    fprintf(file, "%8ld bytes of %4d steps", end, round_);
    MUST(fseek(file, 0, SEEK_END) >= 0);
    fflush(file);
    return end;
}

static long by_mapping(const char *path)
{
    int fd = open(path, O_RDWR);
    MUST(fd >= 0);
    long *values = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MUST(values != MAP_FAILED);
    long sum = changed(values, NUMBERS);
    munmap(values, LENGTH);
    close(fd);
    return sum;
}

/* The content of one file is copied over another one; parts of it are zeroed. */
static long copied(int from, int to)
{
    off_t start = round_ * 8 % 160, end = 8 * (round_ % 5);
    MUST(lseek(to, end, SEEK_SET) >= 0);
    MUST(copy_file_range(from, &start, to, NULL, 48, 0) == 48);
    MUST(fallocate(to, FALLOC_FL_ZERO_RANGE, 100 + round_ % 9, 30) == 0 || errno == EOPNOTSUPP);
    long values[NUMBERS];
    MUST(is_all(pread(to, values, LENGTH, 0), LENGTH));
    return changed(values, NUMBERS) % 1000;
}

/* A file that is removed, or replaced, while it is still written. */
static long removed(const char *path)
{
    int fd = open(path, O_RDWR);
    MUST(fd >= 0);
    long values[NUMBERS];
    MUST(is_all(pread(fd, values, LENGTH, 0), LENGTH));
    long sum = changed(values, NUMBERS);
    const char *other = name(rank, "other");
    if (round_ % 2) {
        MUST(unlink(path) >= 0);
    } else {
        filled(other, NUMBERS, sum % 100);
        MUST(rename(other, path) >= 0);
    }
    if (round_ % 4 < 2)
        MUST(ftruncate(fd, round_ % 50) >= 0);
    MUST(is_all(pwrite(fd, values, LENGTH, 0), LENGTH));
    close(fd);
    if (round_ % 2)
        filled(path, NUMBERS, sum % 100);
    return sum;
}

/* Data that a neighbour has written. */
static long of_neighbour(const char *what)
{
    const char *path = name((rank + 1) % size, what);
    char bytes[LENGTH];
    long sum = 0;
    int fd = open(path, O_RDONLY);
    MUST(fd >= 0);
    ssize_t length = read(fd, bytes, sizeof bytes);
    MUST(length >= 0);
    close(fd);
    for (ssize_t i = 0; i < length; i++)
        sum = (sum * 31 + bytes[i]) % 100003;
    return sum;
}

static void content(void)
{
    static long values[BIG];
    long all, value = 0;
    value += one_number(round_ % 4 ? state : twin);
    value += anew(name(rank, "anew"), values, NUMBERS);
    if (round_ % 5 == 0)
        value += anew(name(rank, "big"), values, BIG);
    value += by_stream(stream);
    value += with_header(header);
    value += by_mapping(name(rank, "mapped"));
    value += copied(state, target);
    value += removed(name(rank, "removed"));
    MPI_Allreduce(&value, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    value = of_neighbour("state") + of_neighbour("header") + of_neighbour("anew");
    total = (total * 7 + all + value) % 1000003;
    say("sum %ld", total);
    meet();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    start_rounds(argc, argv);
    state = open(filled(name(rank, "state"), NUMBERS, rank + 1), O_RDWR);
    twin = dup(state);
    target = open(filled(name(rank, "target"), NUMBERS, rank), O_RDWR);
    stream = fopen(filled(name(rank, "stream"), NUMBERS, 2), "r+");
    header = fopen(name(rank, "header"), "w");
    MUST(state >= 0 && twin >= 0 && target >= 0 && stream && header);
    fprintf(header, "%40s\n", "");
    filled(name(rank, "anew"), NUMBERS, 3);
    filled(name(rank, "big"), BIG, 4);
    filled(name(rank, "mapped"), NUMBERS, 5);
    filled(name(rank, "removed"), NUMBERS, 6);
    all_rounds(content);
    fclose(stream);
    fclose(header);
    MPI_Finalize();
    return 0;
}
