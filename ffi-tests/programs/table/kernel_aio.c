/*
 * Kernel AIO (io_setup(2)) whose requests complete between the collectives.
 *
 * One context lives as long as the program: events of completed requests wait in its
 * ring during collectives, and are taken by calls or by moving the head. A larger
 * context is replaced by a new one in each third round. A thread waits for events of a
 * third context. Requests overwrite a file, and are reported by an eventfd.
 */
#define _GNU_SOURCE
#include "../check.h"
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { BLOCK = 512 };

struct ring {
    unsigned id, nr, head, tail, magic, features[2], length;
    struct io_event events[];
};

static aio_context_t context, exchanged, awaited;
static int file, counter;
static long taken;
static char blocks[3][BLOCK];

static void set_up(aio_context_t *made, unsigned requests)
{
    *made = 0;
    MUST(syscall(SYS_io_setup, requests, made) == 0);
}

static void submit(aio_context_t to, struct iocb *request)
{
    MUST(syscall(SYS_io_submit, to, 1L, &request) == 1);
}

static unsigned waiting(aio_context_t of)
{
    volatile struct ring *ring = (void *)of;
    return (ring->tail + ring->nr - ring->head) % ring->nr;
}

/* From here on, events wait in the ring, and no request is active. */
static void wait_for(aio_context_t of, unsigned count)
{
    while (waiting(of) < count)
        usleep(100);
}

static void take(aio_context_t from, long count)
{
    struct io_event events[4];
    MUST(syscall(SYS_io_getevents, from, count, count, events, NULL) == count);
    for (long i = 0; i < count; i++)
        say("event %llu: %lld", (unsigned long long)events[i].data, (long long)events[i].res);
}

/* Takes an event like programs that read the ring themselves. */
static void take_by_hand(aio_context_t from)
{
    volatile struct ring *ring = (void *)from;
    say("event %llu by hand", (unsigned long long)ring->events[ring->head].data);
    ring->head = (ring->head + 1) % ring->nr;
}

static void write_blocks(void)
{
    struct iovec parts[] = {{blocks[1], BLOCK / 2}, {blocks[2], BLOCK}};
    struct iocb one = {
        .aio_data = 10 * round_,
        .aio_lio_opcode = IOCB_CMD_PWRITE,
        .aio_fildes = file,
        .aio_buf = (uintptr_t)blocks[0],
        .aio_nbytes = BLOCK,
        .aio_offset = round_ % 4 * BLOCK,
        .aio_flags = IOCB_FLAG_RESFD,
        .aio_resfd = counter,
    };
    struct iocb two = one;
    two.aio_data++;
    two.aio_lio_opcode = IOCB_CMD_PWRITEV;
    two.aio_buf = (uintptr_t)parts;
    two.aio_nbytes = 2;
    two.aio_offset = (4 + round_ % 3) * BLOCK;
    for (int i = 0; i < 3; i++)
        memset(blocks[i], 'a' + (round_ + i) % 26, BLOCK);
    submit(context, &one);
    submit(context, &two);
}

/* Requests write both files and memory. */
static void read_block(aio_context_t with, int place)
{
    static char block[BLOCK];
    struct iocb request = {
        .aio_data = 1000 + place,
        .aio_lio_opcode = IOCB_CMD_PREAD,
        .aio_fildes = file,
        .aio_buf = (uintptr_t)block,
        .aio_nbytes = BLOCK,
        .aio_offset = place * BLOCK,
    };
    submit(with, &request);
    take(with, 1);
    say("block %d: %c %c", place, block[0], block[BLOCK - 1]);
}

static void exchange(void)
{
    read_block(exchanged, round_ % 4);
    if (round_ % 3 != 1)
        return;
    MUST(syscall(SYS_io_destroy, exchanged) == 0);
    meet();
    set_up(&exchanged, 100 + 50 * round_);
}

static void *serve(void *unused)
{
    struct io_event event;
    for (;;) {
        MUST(syscall(SYS_io_getevents, awaited, 1L, 1L, &event, NULL) == 1);
        if (event.data == 0)
            return unused;
        __atomic_add_fetch(&taken, event.data, __ATOMIC_SEQ_CST);
    }
}

static void wake_thread(unsigned data)
{
    struct iocb request = {
        .aio_data = data,
        .aio_lio_opcode = IOCB_CMD_PREAD,
        .aio_fildes = file,
        .aio_buf = (uintptr_t)blocks,
    };
    submit(awaited, &request);
}

static void content(void)
{
    uint64_t count = 0;
    long before = taken;
    write_blocks();
    wait_for(context, 2);
    meet();
    take(context, 1);
    meet();
    if (round_ % 2)
        take_by_hand(context);
    else
        take(context, 1);
    MUST(read(counter, &count, sizeof count) == sizeof count);
    say("counter: %llu", (unsigned long long)count);
    read_block(context, round_ % 7);
    meet();
    exchange();
    wake_thread(round_ + 1);
    while (__atomic_load_n(&taken, __ATOMIC_SEQ_CST) == before)
        usleep(100);
    meet();
    say("taken: %ld", taken);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    char name[32];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(name, sizeof name, "kernel_aio.%d", rank);
    file = open(name, O_CREAT | O_TRUNC | O_RDWR, 0644);
    counter = eventfd(0, 0);
    MUST(ftruncate(file, 8 * BLOCK) == 0);
    set_up(&context, 8);
    set_up(&exchanged, 100);
    set_up(&awaited, 1);
    MUST(pthread_create(&thread, NULL, serve, NULL) == 0);
    run_rounds(argc, argv, content);
    wake_thread(0);
    pthread_join(thread, NULL);
    MUST(syscall(SYS_io_destroy, context) == 0 && syscall(SYS_io_destroy, exchanged) == 0);
    MUST(syscall(SYS_io_destroy, awaited) == 0);
    MPI_Finalize();
    return 0;
}
