/* Messages through sockets, as the programs of the table send and report them. */
#ifndef SOCKET_MESSAGES_H
#define SOCKET_MESSAGES_H

#include "../check.h"
#include <errno.h>
#include <sys/socket.h>

UNUSED static void send_number(int socket, int number)
{
    char text[32];
    int length = snprintf(text, sizeof text, "message %d", number);
    MUST(send(socket, text, length, MSG_NOSIGNAL) == length);
}

UNUSED static void say_message(const char *what, int socket)
{
    char text[64];
    ssize_t length = recv(socket, text, sizeof text, MSG_DONTWAIT);
    if (length < 0)
        say("%s: error %d", what, errno);
    else
        say("%s: %zd bytes, %.*s", what, length, (int)length, text);
}

#endif
