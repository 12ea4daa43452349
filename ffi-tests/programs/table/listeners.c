/*
 * Listeners without waiting connections: TCP at loopback and any addresses, IPv6, an
 * abstract UNIX name.
 *
 * Each keeps its descriptor, address, options and registration with epoll(7). A client
 * of the process connects to each of them between collectives. One connection waits
 * during the collective in odd rounds of a worker that may fail. One listener is closed
 * and reopened at its port in each round; another one is opened in one round and closed
 * in the next.
 */
#define _GNU_SOURCE
#include "loopback.h"
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/un.h>

enum { LOOPBACK, ANY, ONLY_V6, SHARED, ABSTRACT, KINDS };

static int listeners[KINDS], watch, reopened = -1, passing = -1, reopened_port;
static struct address addresses[KINDS];

static int listen_at(struct address address, int is_reused, int backlog)
{
    int made = socket(address.bytes.ss_family, SOCK_STREAM, 0);
    if (is_reused)
        set_option(made, SOL_SOCKET, SO_REUSEADDR, 1);
    if (address.bytes.ss_family == AF_INET6)
        set_option(made, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    MUST(bind(made, (void *)&address.bytes, address.length) == 0 && listen(made, backlog) == 0);
    return made;
}

static struct address abstract_name(void)
{
    struct address address = {0};
    struct sockaddr_un *name = (void *)&address.bytes;
    name->sun_family = AF_UNIX;
    int length = snprintf(name->sun_path + 1, 64, "listener %d of rank %d", (int)getpid(), rank);
    address.length = offsetof(struct sockaddr_un, sun_path) + 1 + length;
    return address;
}

static void open_listeners(void)
{
    listeners[LOOPBACK] = listen_at(address_of("127.0.0.1", 0), 0, 5);
    listeners[ANY] = listen_at(address_of("0.0.0.0", 0), 1, 17);
    listeners[ONLY_V6] = listen_at(address_of("::", 0), 1, 128);
    listeners[SHARED] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    set_option(listeners[SHARED], SOL_SOCKET, SO_REUSEPORT, 1);
    set_option(listeners[SHARED], SOL_SOCKET, SO_RCVBUF, 20000);
    set_option(listeners[SHARED], IPPROTO_TCP, TCP_NODELAY, 1);
    struct address shared = address_of("127.0.0.2", 0), name = abstract_name();
    MUST(bind(listeners[SHARED], (void *)&shared.bytes, shared.length) == 0);
    MUST(listen(listeners[SHARED], 1) == 0);
    listeners[ABSTRACT] = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    MUST(bind(listeners[ABSTRACT], (void *)&name.bytes, name.length) == 0);
    MUST(listen(listeners[ABSTRACT], 3) == 0);
    watch = epoll_create1(0);
    for (int kind = 0; kind < KINDS; kind++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = kind};
        addresses[kind] = own_address(listeners[kind]);
        MUST(epoll_ctl(watch, EPOLL_CTL_ADD, listeners[kind], &event) == 0);
    }
}

/* A connection to a listener of this kind, which epoll reports. */
static void serve(int kind)
{
    struct epoll_event event;
    struct address to = addresses[kind];
    if (kind == ANY)
        to = address_of("127.0.0.1", port_of(&to));
    else if (kind == ONLY_V6)
        to = address_of("::1", port_of(&to));
    int client = socket(to.bytes.ss_family, kind == ABSTRACT ? SOCK_SEQPACKET : SOCK_STREAM, 0);
    MUST(connect(client, (void *)&to.bytes, to.length) == 0);
    CHECK(epoll_wait(watch, &event, 1, 1000) == 1 && event.data.u32 == (unsigned)kind);
    int accepted = accept(listeners[kind], NULL, NULL);
    send_number(client, round_ * 10 + kind);
    say_message("served", accepted);
    close(client), close(accepted);
}

static void check_options(void)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct address now = own_address(listeners[kind]);
        CHECK(is_same(&now, &addresses[kind]));
        CHECK(option_of(listeners[kind], SOL_SOCKET, SO_ACCEPTCONN) == 1);
        say("reuse %d %d", option_of(listeners[kind], SOL_SOCKET, SO_REUSEADDR),
            option_of(listeners[kind], SOL_SOCKET, SO_REUSEPORT));
    }
    for (int kind = LOOPBACK; kind <= SHARED; kind++) {
        struct tcp_info info;
        socklen_t length = sizeof info;
        getsockopt(listeners[kind], IPPROTO_TCP, TCP_INFO, &info, &length);
        say("%d of %d wait", info.tcpi_unacked, info.tcpi_sacked);
    }
    CHECK(option_of(listeners[ONLY_V6], IPPROTO_IPV6, IPV6_V6ONLY) == 1);
    CHECK(option_of(listeners[SHARED], SOL_SOCKET, SO_RCVBUF) == 40000);
    CHECK(option_of(listeners[SHARED], IPPROTO_TCP, TCP_NODELAY) == 1);
    CHECK(fcntl(listeners[SHARED], F_GETFD) == FD_CLOEXEC);
    CHECK(fcntl(listeners[SHARED], F_GETFL) & O_NONBLOCK);
}

/* Without SO_REUSEADDR the port must be free. */
static void reopen(void)
{
    if (reopened >= 0)
        close(reopened);
    reopened = listen_at(address_of("127.0.0.1", reopened_port), 0, 4);
    struct address now = own_address(reopened);
    reopened_port = port_of(&now);
    int client = connect_to(&now), accepted = accept(reopened, NULL, NULL);
    send_number(client, round_);
    meet();
    say_message("reopened", accepted);
    close(client), close(accepted);
}

static void pass(void)
{
    if (passing >= 0)
        MUST(close(passing) == 0);
    passing = round_ % 2 ? listen_at(address_of("::1", 0), 0, 2) : -1;
    meet();
}

static void content(void)
{
    check_options();
    for (int kind = 0; kind < KINDS; kind++)
        serve(kind);
    meet();
    int waiting = round_ % 2 ? connect_to(&addresses[LOOPBACK]) : -1;
    reopen();
    if (waiting >= 0)
        close(waiting), close(accept(listeners[LOOPBACK], NULL, NULL));
    pass();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    open_listeners();
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
