/*
 * Exchanges two names repeatedly for a number of seconds (rename(2):
 * RENAME_EXCHANGE). Not an MPI program, but an attack.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "exchange ONE OTHER SECONDS\n");
        return 2;
    }
    time_t end = time(NULL) + atoi(argv[3]);
    long count = 0;
    while (time(NULL) < end) {
        if (renameat2(AT_FDCWD, argv[1], AT_FDCWD, argv[2], RENAME_EXCHANGE) != 0) {
            perror("renameat2");
            return 1;
        }
        count++;
    }
    printf("exchanged %s\n", count > 0 ? "often" : "never");
    return 0;
}
