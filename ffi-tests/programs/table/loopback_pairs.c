/*
 * TCP connections over loopback with both ends in the process.
 *
 * Some were accepted by listeners that are closed, some by one that is open. One has an
 * IPv4 client and an IPv6 listener. Messages wait in both directions at each
 * collective, many of them in one direction. Addresses, options, duplicates and registrations
 * with epoll(7) stay. An end whose other end was closed keeps its waiting data. One
 * connection is shut down in one direction. In each round, a connection is made and
 * another one closed.
 */
#define _GNU_SOURCE
#include "loopback.h"
#include <sys/epoll.h>
#include <sys/ioctl.h>

enum { PLAIN, V6, MAPPED, ACCEPTED, REUSED, KINDS };
enum { MANY = 100000 };

static int listener, pairs[KINDS][2], half[2], passing[2] = {-1, -1}, duplicate, watch;
static int left[2];
static struct address addresses[KINDS][2], left_address;
static char bytes[MANY];

static int listen_at(const char *text, int is_reused)
{
    struct address address = address_of(text, 0);
    int made = socket(address.bytes.ss_family, SOCK_STREAM, 0);
    set_option(made, SOL_SOCKET, SO_REUSEADDR, is_reused);
    MUST(bind(made, (void *)&address.bytes, address.length) == 0 && listen(made, 4) == 0);
    return made;
}

static void accept_from(int from, const char *text, int *pair)
{
    struct address address = own_address(from);
    address = address_of(text, port_of(&address));
    pair[0] = connect_to(&address);
    pair[1] = accept(from, NULL, NULL);
}

static void make_pair(const char *at, const char *text, int is_reused, int *pair)
{
    int temporary = listen_at(at, is_reused);
    accept_from(temporary, text, pair);
    MUST(close(temporary) == 0);
}

static void make_pairs(void)
{
    listener = listen_at("127.0.0.1", 0);
    make_pair("127.0.0.1", "127.0.0.1", 0, pairs[PLAIN]);
    make_pair("::1", "::1", 0, pairs[V6]);
    make_pair("::", "127.0.0.1", 0, pairs[MAPPED]);
    accept_from(listener, "127.0.0.1", pairs[ACCEPTED]);
    make_pair("127.0.0.1", "127.0.0.1", 1, pairs[REUSED]);
    make_pair("127.0.0.1", "127.0.0.1", 0, half);
    /*
     * No data are delayed, except for those that the first pair's second end might
     * send.
     */
    for (int kind = 0; kind < KINDS; kind++)
        for (int end = 0; end < 2; end++)
            set_option(pairs[kind][end], IPPROTO_TCP, TCP_NODELAY, kind != PLAIN || end == 0);
    set_option(half[1], IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(pairs[V6][1], SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(pairs[V6][1], IPPROTO_TCP, TCP_KEEPIDLE, 77);
    set_option(pairs[MAPPED][0], SOL_SOCKET, SO_RCVBUF, 30000);
    MUST(fcntl(pairs[V6][0], F_SETFL, O_NONBLOCK) == 0);
    for (int kind = 0; kind < KINDS; kind++)
        for (int end = 0; end < 2; end++)
            addresses[kind][end] = own_address(pairs[kind][end]);
}

static void check_pair(int kind)
{
    for (int end = 0; end < 2; end++) {
        int socket = pairs[kind][end];
        struct address own = own_address(socket), peer = peer_address(socket);
        CHECK(is_same(&own, &addresses[kind][end]));
        CHECK(port_of(&peer) == port_of(&addresses[kind][!end]));
        say("reuse %d %d", option_of(socket, SOL_SOCKET, SO_REUSEADDR),
            option_of(socket, SOL_SOCKET, SO_REUSEPORT));
    }
}

static void check_options(void)
{
    for (int kind = 0; kind < KINDS; kind++)
        check_pair(kind);
    CHECK(option_of(pairs[PLAIN][0], IPPROTO_TCP, TCP_NODELAY) == 1);
    CHECK(option_of(pairs[PLAIN][1], IPPROTO_TCP, TCP_NODELAY) == 0);
    CHECK(option_of(pairs[V6][1], SOL_SOCKET, SO_KEEPALIVE) == 1);
    CHECK(option_of(pairs[V6][1], IPPROTO_TCP, TCP_KEEPIDLE) == 77);
    CHECK(option_of(pairs[MAPPED][0], SOL_SOCKET, SO_RCVBUF) == 60000);
    CHECK(fcntl(pairs[V6][0], F_GETFL) & O_NONBLOCK);
    CHECK(!(fcntl(pairs[V6][1], F_GETFL) & O_NONBLOCK));
}

static void exchange(void)
{
    struct epoll_event event;
    int waiting;
    memset(bytes, 'a' + round_ % 26, sizeof bytes);
    for (int kind = 0; kind < KINDS; kind++) {
        send_number(pairs[kind][0], round_);
        send_number(pairs[kind][1], 2 * round_);
        send_number(pairs[kind][0], 3 * round_);
    }
    MUST(send(pairs[REUSED][1], bytes, MANY, MSG_NOSIGNAL) == MANY);
    meet();
    CHECK(epoll_wait(watch, &event, 1, 0) == 1 && event.data.u32 == 7);
    MUST(ioctl(duplicate, FIONREAD, &waiting) == 0);
    say("%d bytes wait", waiting);
    say_message("duplicate", duplicate);
    meet();
    for (int kind = 0; kind < KINDS; kind++)
        for (int end = 0; end < 2; end++)
            say_message("end", pairs[kind][end]);
    long sum = 0, count = 0;
    for (ssize_t got; (got = recv(pairs[REUSED][0], bytes, MANY, MSG_DONTWAIT)) > 0; count += got)
        for (int i = 0; i < got; i++)
            sum += bytes[i];
    say("%ld bytes, sum %ld", count, sum);
}

static void shut_down(void)
{
    if (round_ == 3) {
        send_number(half[0], 33);
        MUST(shutdown(half[0], SHUT_WR) == 0);
    }
    send_number(half[1], round_);
    meet();
    say_message("shut", half[0]);
    if (round_ >= 3) {
        CHECK(send(half[0], "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
        if (round_ >= 6)
            say_message("end of the stream", half[1]);
    }
}

/* The accepted end is closed first, so that the kernel keeps its address. */
static void replace(void)
{
    if (passing[0] >= 0)
        MUST(close(passing[1]) == 0 && close(passing[0]) == 0);
    accept_from(listener, "127.0.0.1", passing);
    send_number(passing[0], round_);
    meet();
    say_message("passing", passing[1]);
}

/*
 * An end whose other end is closed in each round, and one whose other end was closed
 * before.
 */
static void leave_behind(void)
{
    int ends[2];
    accept_from(listener, "127.0.0.1", ends);
    if (round_ == 0) {
        accept_from(listener, "127.0.0.1", left);
        left_address = peer_address(left[1]);
        send_number(left[0], 4711);
        MUST(close(left[0]) == 0);
    }
    send_number(ends[0], round_);
    close(ends[0]);
    meet();
    struct address now = peer_address(left[1]);
    CHECK(is_same(&now, &left_address));
    say_message("left behind", ends[1]);
    say_message("left behind", ends[1]);
    close(ends[1]);
    if (round_ == 9)
        say_message("left long ago", left[1]);
}

static void content(void)
{
    check_options();
    exchange();
    shut_down();
    leave_behind();
    replace();
}

int main(int argc, char **argv)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 7};
    MPI_Init(&argc, &argv);
    make_pairs();
    duplicate = dup(pairs[PLAIN][1]);
    watch = epoll_create1(0);
    MUST(epoll_ctl(watch, EPOLL_CTL_ADD, pairs[PLAIN][1], &event) == 0);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
