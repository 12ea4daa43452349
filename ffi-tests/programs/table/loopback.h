/* TCP sockets at loopback addresses, as used by the programs of the table. */
#ifndef LOOPBACK_H
#define LOOPBACK_H

#include "socket_messages.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

struct address {
    struct sockaddr_storage bytes;
    socklen_t length;
};

UNUSED static struct address address_of(const char *text, int port)
{
    struct address address = {.length = sizeof(struct sockaddr_in)};
    struct sockaddr_in *v4 = (void *)&address.bytes;
    struct sockaddr_in6 *v6 = (void *)&address.bytes;
    *v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1)
        return address;
    *v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
    MUST(inet_pton(AF_INET6, text, &v6->sin6_addr) == 1);
    address.length = sizeof *v6;
    return address;
}

UNUSED static int port_of(const struct address *address)
{
    /* The port has an equal offset in both families. */
    return ntohs(((const struct sockaddr_in *)&address->bytes)->sin_port);
}

UNUSED static struct address own_address(int socket)
{
    struct address address = {.length = sizeof address.bytes};
    MUST(getsockname(socket, (void *)&address.bytes, &address.length) == 0);
    return address;
}

UNUSED static struct address peer_address(int socket)
{
    struct address address = {.length = sizeof address.bytes};
    MUST(getpeername(socket, (void *)&address.bytes, &address.length) == 0);
    return address;
}

UNUSED static int is_same(const struct address *one, const struct address *other)
{
    return one->length == other->length && memcmp(&one->bytes, &other->bytes, one->length) == 0;
}

UNUSED static void set_option(int socket, int level, int name, int value)
{
    MUST(setsockopt(socket, level, name, &value, sizeof value) == 0);
}

UNUSED static int option_of(int socket, int level, int name)
{
    int value = -1;
    socklen_t length = sizeof value;
    MUST(getsockopt(socket, level, name, &value, &length) == 0);
    return value;
}

UNUSED static int connect_to(const struct address *address)
{
    int client = socket(address->bytes.ss_family, SOCK_STREAM, 0);
    MUST(connect(client, (const void *)&address->bytes, address->length) == 0);
    return client;
}

#endif
