/*
 * Threads that libc makes: of C11 (threads.h), for asynchronous I/O, for look-ups of
 * names.
 */
#define _GNU_SOURCE
#include "../check.h"
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <threads.h>

enum { LENGTH = 64, BLOCKS = 4 };

static long total;
static once_flag once = ONCE_FLAG_INIT;
static mtx_t lock;
static cnd_t changed;
static int asked, answered, is_told;
static tss_t own;

static void destroyed(void *value)
{
    mtx_lock(&lock);
    total += (long)value;
    mtx_unlock(&lock);
}

static void prepare(void)
{
    MUST(mtx_init(&lock, mtx_plain) == thrd_success);
    MUST(cnd_init(&changed) == thrd_success);
    MUST(tss_create(&own, destroyed) == thrd_success);
}

/* Lives as long as the program. */
static int answer(void *nothing)
{
    (void)nothing;
    mtx_lock(&lock);
    for (;;) {
        while (asked == answered)
            cnd_wait(&changed, &lock);
        answered = asked;
        total = total * 31 % 1000003 + answered;
        cnd_broadcast(&changed);
    }
    return 0;
}

static int leave(void *value)
{
    tss_set(own, value);
    if ((long)value % 2)
        thrd_exit((int)(long)value + 5);
    return (int)(long)value - 70000;
}

static void c11(void)
{
    static thrd_t server;
    thrd_t thread;
    int result;
    call_once(&once, prepare);
    if (round_ == 1)
        MUST(thrd_create(&server, answer, NULL) == thrd_success);
    MUST(thrd_create(&thread, leave, (void *)(long)round_) == thrd_success);
    meet();
    MUST(thrd_join(thread, &result) == thrd_success);
    MUST(result == (round_ % 2 ? round_ + 5 : round_ - 70000));
    if (round_ >= 1) {
        mtx_lock(&lock);
        asked = round_;
        cnd_broadcast(&changed);
        while (asked != answered)
            cnd_wait(&changed, &lock);
        mtx_unlock(&lock);
    }
}

static void wait_for(struct aiocb *block)
{
    const struct aiocb *list[] = {block};
    while (aio_error(block) == EINPROGRESS)
        aio_suspend(list, 1, NULL);
    MUST(aio_return(block) == LENGTH);
}

static void asynchronous(void)
{
    static int file = -1;
    char name[32], out[BLOCKS][LENGTH], in[BLOCKS][LENGTH];
    struct aiocb blocks[BLOCKS], *list[BLOCKS];
    if (file < 0) {
        snprintf(name, sizeof name, "aio.%d", rank);
        file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        MUST(file >= 0);
    }
    memset(blocks, 0, sizeof blocks);
    for (int i = 0; i < BLOCKS; i++) {
        memset(out[i], 'a' + (round_ + i + rank) % 26, LENGTH);
        blocks[i].aio_fildes = file;
        blocks[i].aio_buf = out[i];
        blocks[i].aio_nbytes = LENGTH;
        blocks[i].aio_offset = i * LENGTH;
        blocks[i].aio_lio_opcode = LIO_WRITE;
        blocks[i].aio_sigevent.sigev_notify = SIGEV_NONE;
        list[i] = &blocks[i];
    }
    if (round_ % 2)
        MUST(lio_listio(LIO_NOWAIT, list, BLOCKS, NULL) == 0);
    else
        for (int i = 0; i < BLOCKS; i++)
            MUST(aio_write(&blocks[i]) == 0);
    meet();
    for (int i = 0; i < BLOCKS; i++) {
        wait_for(&blocks[i]);
        blocks[i].aio_buf = in[i];
        MUST(aio_read(&blocks[i]) == 0);
        wait_for(&blocks[i]);
        MUST(memcmp(in[i], out[i], LENGTH) == 0);
    }
}

static void told(union sigval value)
{
    mtx_lock(&lock);
    total += value.sival_int;
    is_told = 1;
    cnd_broadcast(&changed);
    mtx_unlock(&lock);
}

/* A read that waits during a collective; a separate thread reports its completion. */
static void from_pipe(void)
{
    int ends[2];
    char in[LENGTH] = "", out[LENGTH] = "through the pipe";
    struct aiocb block = {.aio_nbytes = LENGTH, .aio_buf = in};
    MUST(pipe(ends) == 0);
    block.aio_fildes = ends[0];
    block.aio_sigevent.sigev_notify = SIGEV_THREAD;
    block.aio_sigevent.sigev_notify_function = told;
    block.aio_sigevent.sigev_value.sival_int = round_;
    is_told = 0;
    MUST(aio_read(&block) == 0);
    meet();
    MUST(aio_error(&block) == EINPROGRESS);
    MUST(write(ends[1], out, LENGTH) == LENGTH);
    wait_for(&block);
    MUST(memcmp(in, out, LENGTH) == 0);
    mtx_lock(&lock);
    while (!is_told)
        cnd_wait(&changed, &lock);
    mtx_unlock(&lock);
    close(ends[0]);
    close(ends[1]);
}

static void names(void)
{
    struct gaicb request = {.ar_name = "127.0.0.1"}, *list[] = {&request};
    MUST(getaddrinfo_a(GAI_NOWAIT, list, 1, NULL) == 0);
    while (gai_suspend((const struct gaicb **)list, 1, NULL) == EAI_INTR)
        ;
    MUST(gai_error(&request) == 0);
    freeaddrinfo(request.ar_result);
}

static void content(void)
{
    c11();
    asynchronous();
    if (round_ >= 3)
        from_pipe();
    if (round_ >= 4)
        names();
    mtx_lock(&lock);
    say("total %ld", total);
    mtx_unlock(&lock);
}

MAIN(content)
