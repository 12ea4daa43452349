/*
 * POSIX message queues of each process, whose names are removed at once.
 *
 * Messages wait at each collective. One queue lives as long as the program and has two
 * descriptors with one open file description. A second queue is replaced by a new one in
 * each third round. A thread waits for messages of a third queue. A fourth queue
 * repeatedly keeps its name over a collective: the creation of this queue fails if a
 * failure has left the name behind.
 */
#define _GNU_SOURCE
#include "../check.h"
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <sys/stat.h>

enum { LENGTH = 40 };

static mqd_t queue, same, exchanged, requests, full;
static long served;
static char name[32];

static mqd_t make_named(long count)
{
    struct mq_attr limits = {.mq_maxmsg = count, .mq_msgsize = LENGTH};
    return mq_open(name, O_CREAT | O_EXCL | O_RDWR | O_NONBLOCK, 0600, &limits);
}

static mqd_t make(long count)
{
    mqd_t made = make_named(count);
    MUST(made >= 0 && mq_unlink(name) == 0);
    return made;
}

static void send_text(mqd_t to, unsigned priority)
{
    char text[LENGTH];
    int length = snprintf(text, sizeof text, "round %d priority %u", round_, priority);
    say("send: %d", mq_send(to, text, length, priority) == 0 ? 0 : errno);
}

static void receive_text(mqd_t from)
{
    char text[LENGTH];
    unsigned priority = 0;
    ssize_t length = mq_receive(from, text, sizeof text, &priority);
    if (length < 0)
        say("receive: error %d", errno);
    else
        say("receive: priority %u, %.*s", priority, (int)length, text);
}

static void report(const char *what, mqd_t of)
{
    struct mq_attr now;
    struct stat about;
    MUST(mq_getattr(of, &now) == 0 && fstat(of, &about) == 0);
    say("%s: %ld of %ld messages, flags %lo", what, now.mq_curmsgs, now.mq_maxmsg, now.mq_flags);
    say("mode %o, close on exec %d", about.st_mode, fcntl(of, F_GETFD));
}

static void use_queue(void)
{
    send_text(queue, 1 + round_ % 2);
    send_text(queue, 2);
    meet();
    receive_text(same);
    if (round_ == 6)
        MUST(fchmod(queue, 0640) == 0);
    struct mq_attr flags = {.mq_flags = round_ % 2 ? O_NONBLOCK : 0};
    MUST(mq_setattr(same, &flags, NULL) == 0);
    meet();
    report("queue", queue);
    MUST(mq_setattr(same, &(struct mq_attr){.mq_flags = O_NONBLOCK}, NULL) == 0);
    receive_text(queue);
    if (round_ % 4 == 3)
        receive_text(queue);
}

static void exchange(void)
{
    send_text(exchanged, 5);
    send_text(exchanged, 0);
    meet();
    report("exchanged", exchanged);
    if (round_ % 3 != 1)
        return receive_text(exchanged);
    MUST(mq_close(exchanged) == 0);
    meet();
    exchanged = make(4 + round_ % 3);
}

/* No checkpoint is possible meanwhile, since any process may use the queue. */
static void use_named(void)
{
    if (round_ % 4)
        return;
    mqd_t named = make_named(2);
    say("made: %d", named >= 0 ? 0 : errno);
    send_text(named, 3);
    meet();
    receive_text(named);
    MUST(mq_unlink(name) == 0 && mq_close(named) == 0);
}

/* A full queue, to which nothing more can be sent. */
static void use_full(void)
{
    while (round_ % 5 == 0 && mq_send(full, "x", 1, round_ % 7) == 0)
        ;
    meet();
    send_text(full, 9);
    receive_text(full);
    report("full", full);
}

static void *serve(void *unused)
{
    char text[LENGTH];
    for (;;) {
        ssize_t length = mq_receive(requests, text, sizeof text, NULL);
        MUST(length > 0);
        if (text[0] == 'e')
            return unused;
        __atomic_add_fetch(&served, length, __ATOMIC_SEQ_CST);
    }
}

static void ask(void)
{
    long before = served;
    MUST(mq_send(requests, "request", 1 + round_ % 7, 0) == 0);
    while (__atomic_load_n(&served, __ATOMIC_SEQ_CST) == before)
        usleep(100);
    meet();
    say("served: %ld", served);
}

static void content(void)
{
    use_queue();
    exchange();
    use_named();
    use_full();
    ask();
}

int main(int argc, char **argv)
{
    pthread_t thread;
    MPI_Init(&argc, &argv);
    snprintf(name, sizeof name, "/posix_queues.%d", (int)getpid());
    queue = make(8);
    same = dup(queue);
    exchanged = make(4);
    full = make(3);
    requests = make(1);
    MUST(fcntl(exchanged, F_SETFD, 0) == 0);
    MUST(mq_setattr(requests, &(struct mq_attr){0}, NULL) == 0);
    MUST(pthread_create(&thread, NULL, serve, NULL) == 0);
    run_rounds(argc, argv, content);
    MUST(mq_send(requests, "end", 3, 0) == 0);
    pthread_join(thread, NULL);
    MPI_Finalize();
    return 0;
}
