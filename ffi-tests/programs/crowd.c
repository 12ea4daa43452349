/* Repeatedly connects to all TCP ports on which a user listens on the loopback
 * interface, and never sends anything. Not an MPI program, but an attack.
 *
 *   crowd USER SECONDS FILE
 *
 * The program ends early when FILE exists. It prints the number of ports found,
 * up to three, and how many of all its connections were still open after 0.3 s. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PORTS = 64, EACH = 20, LISTENING = 0x0a };

/* Finds the ports of 127.0.0.1 on which this user listens. */
static int find(unsigned user, int *ports) {
    FILE *table = fopen("/proc/net/tcp", "r");
    char line[256];
    int count = 0;
    while (table && count < PORTS && fgets(line, sizeof line, table)) {
        unsigned address, port, state, owner;
        if (sscanf(line, " %*d: %x:%x %*x:%*x %x %*x:%*x %*x:%*x %*x %u", &address, &port, &state, &owner) == 4 && state == LISTENING && owner == user &&
            address == htonl(INADDR_LOOPBACK))
            ports[count++] = port;
    }
    if (table)
        fclose(table);
    return count;
}

static int call(int port) {
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&there, sizeof there) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int is_open(int fd) {
    char byte;
    ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    return got > 0 || (got < 0 && errno == EAGAIN);
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "crowd USER SECONDS FILE\n");
        return 2;
    }
    unsigned user = atoi(argv[1]);
    time_t end = time(NULL) + atoi(argv[2]);
    int most = 0, open = 0, ports[PORTS], connections[PORTS * EACH];
    while (time(NULL) < end && access(argv[3], F_OK) != 0) {
        int found = find(user, ports), count = 0;
        for (int port = 0; port < found; port++)
            for (int number = 0; number < EACH; number++) {
                int fd = call(ports[port]);
                if (fd >= 0)
                    connections[count++] = fd;
            }
        most = found > most ? found : most;
        usleep(300000);
        for (int number = 0; number < count; number++) {
            open += is_open(connections[number]);
            close(connections[number]);
        }
    }
    printf("ports: %d, left open: %d\n", most < 3 ? most : 3, open);
    return 0;
}
