/*
 * A log that all ranks have open and append to, one after the other. While a rank
 * appends, other ranks may still be in the preceding collective.
 */
#include "check.h"
#include <fcntl.h>
#include <sys/stat.h>

static int journal;

static void content(void)
{
    char line[64];
    struct stat about;
    if (round_ == 0)
        journal = open("journal.log", O_WRONLY | O_APPEND | O_CREAT, 0644);
    MUST(journal >= 0);
    for (int turn = 0; turn < size; turn++) {
        /* The root of a broadcast does not wait for ranks that only receive. */
        int whose = turn;
        MPI_Bcast(&whose, 1, MPI_INT, turn, MPI_COMM_WORLD);
        if (whose == rank) {
            int length = snprintf(line, sizeof line, "round %d rank %d%*s\n", round_, rank, turn, "");
            MUST(write(journal, line, length) == length);
        }
        meet();
    }
    MUST(fstat(journal, &about) == 0);
    say("%lld bytes", (long long)about.st_size);
}

MAIN(content)
