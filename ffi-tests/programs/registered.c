/*
 * Receives whose data a device writes into registered memory. The device is a ring of
 * io_uring with a registered buffer: it writes by the kernel's own mapping of pages that
 * were pinned before, and write tracking does not report that. The page of each step is
 * posted, written by the device, and completed by a message without data. A checkpoint
 * may come between.
 *
 *     registered [steps [pause in milliseconds]]
 *
 * The exit status is 77 if io_uring is not available.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE = 4096, PM_SCAN_WP_MATCHING = 1, PAGE_IS_WRITTEN = 2 };

/* Argument and result of PAGEMAP_SCAN (linux/fs.h from Linux 6.7 on). */
struct scan {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, inverted, mask, anyof,
        reported;
};
struct region {
    uint64_t start, end, categories;
};

static void fail(const char *what)
{
    perror(what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Protects a page as a checkpoint does that has copied the page. */
static void protect(char *page)
{
    struct region found[2];
    struct scan scan = {sizeof scan, PM_SCAN_WP_MATCHING, (uint64_t)page, (uint64_t)page + PAGE, 0,
                        (uint64_t)found, 2, 0, 0, PAGE_IS_WRITTEN, 0, PAGE_IS_WRITTEN};
    int map = open("/proc/self/pagemap", O_RDONLY);
    if (map < 0 || ioctl(map, _IOWR('f', 16, struct scan), &scan) < 0)
        fail("PAGEMAP_SCAN");
    close(map);
}

static int new_ring(struct io_uring_params *parameters)
{
    memset(parameters, 0, sizeof *parameters);
    return syscall(SYS_io_uring_setup, 2, parameters);
}

/* Writes bytes into a page that is registered, and protected afterwards. */
static void device(char *page, const char *bytes)
{
    struct io_uring_params parameters;
    int ring = new_ring(&parameters), ends[2];
    /* A pipe with data needs no thread of the kernel, which could not be saved. */
    if (ring < 0 || pipe(ends) != 0 || write(ends[1], bytes, PAGE) != PAGE)
        fail("io_uring_setup");
    int access = PROT_READ | PROT_WRITE;
    char *queue = mmap(0, PAGE, access, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *entry = mmap(0, PAGE, access, MAP_SHARED, ring, IORING_OFF_SQES);
    struct iovec buffer = {page, PAGE};
    if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &buffer, 1) != 0)
        fail("io_uring_register");
    protect(page);
    *entry = (struct io_uring_sqe){
        .opcode = IORING_OP_READ_FIXED, .fd = ends[0], .addr = (uint64_t)page, .len = PAGE};
    ((unsigned *)(queue + parameters.sq_off.array))[0] = 0;
    __atomic_store_n((unsigned *)(queue + parameters.sq_off.tail), 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) != 1)
        fail("io_uring_enter");
    munmap(queue, PAGE);
    munmap(entry, PAGE);
    close(ring);
    close(ends[0]);
    close(ends[1]);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size, steps = argc > 1 ? atoi(argv[1]) : 100, one = 1, all, gaps = 0;
    int pause_ms = argc > 2 ? atoi(argv[2]) : 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    struct io_uring_params parameters;
    int ring = new_ring(&parameters);
    if (ring < 0) {
        if (rank == 0)
            perror("io_uring is not available");
        MPI_Finalize();
        return 77;
    }
    close(ring);
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    char out[PAGE], in[PAGE];
    char *history = aligned_alloc(PAGE, (size_t)steps * PAGE);
    memset(history, 255, (size_t)steps * PAGE);
    for (int t = 0; t < steps; t++) {
        MPI_Request posted;
        char *page = history + (size_t)t * PAGE;
        memset(out, (t * 7 + rank) % 251, PAGE);
        MPI_Irecv(page, PAGE, MPI_CHAR, left, 1, MPI_COMM_WORLD, &posted);
        MPI_Sendrecv(out, PAGE, MPI_CHAR, right, 0, in, PAGE, MPI_CHAR, left, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        device(page, in);
        MPI_Send(NULL, 0, MPI_CHAR, right, 1, MPI_COMM_WORLD);
        MPI_Wait(&posted, MPI_STATUS_IGNORE);
        MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        usleep(1000 * pause_ms);
    }
    for (int t = 0; t < steps; t++)
        gaps += history[(size_t)t * PAGE + 9] != (char)((t * 7 + left) % 251);
    MPI_Reduce(&gaps, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("pages without their message: %d\n", all);
    MPI_Finalize();
    return 0;
}
