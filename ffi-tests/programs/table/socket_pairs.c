/*
 * Sockets of which the process has both ends, as in event loops: streams, packets,
 * datagrams.
 *
 * Messages wait in both directions at each collective. An end whose other end was
 * closed keeps its waiting data. A direction that was shut down stays so. One pair has
 * two descriptors for one end, and an epoll(7) set monitors it. In each round, a pair
 * is made, and another one closed.
 */
#define _GNU_SOURCE
#include "socket_messages.h"
#include <fcntl.h>
#include <sys/epoll.h>

enum { STREAM, PACKETS, DATAGRAMS, KINDS };

static const int types[KINDS] = {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM};
static int pairs[KINDS][2], orphan, half[2], duplicate, watch, fresh, passing[2] = {-1, -1};

static void exchange(void)
{
    struct epoll_event event;
    for (int kind = 0; kind < KINDS; kind++) {
        send_number(pairs[kind][0], round_);
        send_number(pairs[kind][1], 2 * round_);
        send_number(pairs[kind][0], 3 * round_);
    }
    meet();
    CHECK(epoll_wait(watch, &event, 1, 0) == 1 && event.data.u32 == 7);
    say_message("duplicate", duplicate);
    meet();
    for (int kind = 0; kind < KINDS; kind++)
        for (int end = 0; end < 2; end++)
            say_message("end", pairs[kind][end]);
    if (round_ % 2)
        for (int kind = 0; kind < KINDS; kind++)
            say_message("second", pairs[kind][1]);
    say_message("more of the stream", pairs[STREAM][1]);
}

static void close_ends(void)
{
    int ends[2];
    if (round_ == 3) {
        MUST(shutdown(half[0], SHUT_WR) == 0);
        MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
        send_number(ends[0], 33);
        close(ends[0]);
        orphan = ends[1];
    }
    meet();
    if (round_ == 6)
        say_message("orphan", orphan);
    if (round_ >= 3) {
        say_message("shut", half[1]);
        CHECK(send(half[0], "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
        CHECK(send(half[1], "y", 1, MSG_NOSIGNAL) == 1);
    }
}

static void replace(void)
{
    int value = 1;
    socklen_t length = sizeof value;
    if (passing[0] >= 0)
        MUST(close(passing[0]) == 0 && close(passing[1]) == 0);
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, passing) == 0);
    send_number(passing[0], round_);
    meet();
    CHECK(fcntl(passing[0], F_GETFD) == FD_CLOEXEC && (fcntl(passing[1], F_GETFL) & O_NONBLOCK));
    CHECK(getsockopt(fresh, SOL_SOCKET, SO_KEEPALIVE, &value, &length) == 0 && value == 1);
}

static void content(void)
{
    exchange();
    close_ends();
    replace();
}

int main(int argc, char **argv)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 7};
    MPI_Init(&argc, &argv);
    for (int kind = 0; kind < KINDS; kind++)
        MUST(socketpair(AF_UNIX, types[kind], 0, pairs[kind]) == 0);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, half) == 0);
    duplicate = dup(pairs[STREAM][1]);
    watch = epoll_create1(0);
    MUST(epoll_ctl(watch, EPOLL_CTL_ADD, pairs[STREAM][1], &event) == 0);
    fresh = socket(AF_INET, SOCK_STREAM, 0);
    MUST(setsockopt(fresh, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int)) == 0);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
