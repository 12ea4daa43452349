/*
 * removed: ranks have files mapped that are removed, or replaced while they run.
 *
 *   mpirun -n 4 removed MODE STEPS
 *
 *   program    in step 16 the program's own file is replaced
 *   private    a private mapping of a file that is removed at once
 *   late       a private mapping of a file that is replaced in step 16 by a process
 *              without preload library, like a process outside the job
 *   child      like late, but the file is replaced by a child process
 *   read       a shared mapping for reading of a file that is removed at once
 *   twice      two mappings of one file in memory; the second one is unmapped in
 *              step 17, and mapped again in step 21
 *   open       a mapping of a file in memory that is also open
 *   huge       memory of huge pages, which is never accessed
 *   keys       memory that may not be accessed while MPI is called, by a
 *              protection key (where the processor has them); with a number
 *              after the mode, from that step on
 *   inexact    the program requests a signal for each inexact result
 *   renamed    rank 0 has a file open that is renamed in step 16
 *
 * Each step depends on all bytes of the mappings of all ranks, and every rank prints
 * its value.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <fenv.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 6
#define LENGTH (PAGES * PAGE)

static int rank;
static char *first, *second;
static FILE *file;
static const char *program;
static int key = -1;

static void must(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

static void run(const char *command)
{
    must(system(command) == 0, command);
}

static int is_private(const char *mode)
{
    return !strcmp(mode, "private") || !strcmp(mode, "late") || !strcmp(mode, "child");
}

/* A file with other bytes in each rank and page; the last page is partial. */
static int make(const char *name)
{
    char page[PAGE];
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0, name);
    for (int number = 0; number < PAGES; number++) {
        size_t length = number == PAGES - 1 ? 100 : PAGE;
        memset(page, 1 + rank + 7 * number, sizeof page);
        must(write(fd, page, length) == (ssize_t)length, "write");
    }
    return fd;
}

static char *map(int fd, int access, int flags)
{
    char *at = mmap(NULL, LENGTH, access, flags, fd, 0);
    must(at != MAP_FAILED, "mmap");
    return at;
}

static void begin(const char *mode)
{
    char name[64];
    int fd = -1;
    snprintf(name, sizeof name, "removed.%d", rank);
    if (is_private(mode)) {
        fd = make(name);
        first = map(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE);
        close(fd);
    } else if (!strcmp(mode, "read")) {
        close(make(name));
        fd = open(name, O_RDONLY);
        first = map(fd, PROT_READ, MAP_SHARED);
        close(fd);
    } else if (!strcmp(mode, "twice") || !strcmp(mode, "open")) {
        fd = memfd_create("removed", 0);
        must(fd >= 0 && ftruncate(fd, LENGTH) == 0, "memfd_create");
        first = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
        if (!strcmp(mode, "twice")) {
            second = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
            close(fd);
        }
    } else if (!strcmp(mode, "huge")) {
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_HUGETLB;
        must(mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED, "mmap");
    }
    if (!strncmp(mode, "keys", 4)) {
        first = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        must(first != MAP_FAILED, "mmap");
    } else if (!strcmp(mode, "inexact")) {
        must(feenableexcept(FE_ALL_EXCEPT) != -1, "feenableexcept");
    } else if (!strcmp(mode, "renamed") && rank == 0) {
        must((file = fopen("removed.txt", "w")) != NULL, "fopen");
    }
    if (!strcmp(mode, "private") || !strcmp(mode, "read"))
        must(unlink(name) == 0, "unlink");
}

static void change(const char *mode, long step)
{
    char command[400];
    if (!strcmp(mode, "program") && step == 16 && rank == 0) {
        snprintf(command, sizeof command, "cp /bin/sh other && mv other %s", program);
        run(command);
    }
    if ((!strcmp(mode, "late") || !strcmp(mode, "child")) && step == 16) {
        const char *by = strcmp(mode, "late") ? "" : "env -u LD_PRELOAD";
        snprintf(command, sizeof command, "%s sh -c 'echo other > other.%d && mv other.%d removed.%d'", by, rank, rank, rank);
        run(command);
    }
    if (is_private(mode))
        first[PAGE * (step % 3) + step] ^= (char)(step + rank);
    if (!strcmp(mode, "twice") && step == 17) {
        must(munmap(second, LENGTH) == 0, "munmap");
        second = NULL;
    }
    if (!strcmp(mode, "twice") && step == 21)
        must((second = mremap(first, 0, LENGTH, MREMAP_MAYMOVE)) != MAP_FAILED, "mremap");
    if (!strncmp(mode, "keys", 4) && step == (mode[4] ? atol(mode + 4) : 1)) {
        key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
        must(key < 0 || pkey_mprotect(first, LENGTH, PROT_READ | PROT_WRITE, key) == 0, "pkey_mprotect");
        if (key >= 0)
            pkey_set(key, 0);
    }
    if (file && step == 16)
        run("test ! -e removed.txt || mv removed.txt renamed.txt");
    if (file)
        must(fprintf(file, "step %ld\n", step) > 0 && fflush(file) == 0, "fprintf");
    if (!strcmp(mode, "twice") || !strcmp(mode, "open") ||
        !strncmp(mode, "keys", 4))
        (second && step % 2 ? second : first)[PAGE * (step % PAGES) + step] = (char)(step + rank);
}

/* Bits of the floating-point exceptions that raise a signal. */
#define MASKS 0x1f80

static uint64_t sum(void)
{
    uint64_t all = 14695981039346656037u;
    for (int byte = 0; first && byte < LENGTH; byte++)
        all = (all ^ (unsigned char)first[byte]) * 1099511628211u;
    for (int byte = 0; second && byte < LENGTH; byte++)
        all = (all ^ (unsigned char)second[byte]) * 1099511628211u;
    return all ^ (__builtin_ia32_stmxcsr() & MASKS);
}

int main(int argc, char **argv)
{
    program = argv[0];
    const char *mode = argc > 1 ? argv[1] : "private";
    long steps = argc > 2 ? atol(argv[2]) : 40;
    uint64_t seed = 1, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    begin(mode);
    for (long step = 1; step <= steps; step++) {
        if (key >= 0)
            pkey_set(key, 0);
        change(mode, step);
        uint64_t own = sum() ^ seed;
        if (key >= 0)
            pkey_set(key, PKEY_DISABLE_ACCESS);
        printf("rank %d step %ld sum %016lx\n", rank, step, (unsigned long)own);
        fflush(stdout);
        own *= 2 * (uint64_t)rank + 3;
        MPI_Allreduce(&own, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
        seed = all * 31 + (uint64_t)step;
    }
    MPI_Finalize();
    return 0;
}
