/*
 * A directory in memory that is full from the third round on, as if filled by
 * another user.
 *
 *     fills [rounds [pause in milliseconds [directory]]]
 *
 * Rank 0 starts a process that writes a file until no space is left. The file
 * is in no checkpoint, since the program itself does not write it. With `-` as
 * directory, nothing is filled.
 */
#include "check.h"

static const char *directory = "-";

static void fill(void)
{
    char command[512];
    snprintf(command, sizeof command,
             "dd if=/dev/zero of=%s/filler bs=64k 2>/dev/null; echo >> %s/filler", directory, directory);
    MUST(system(command) != -1);
}

static void content(void)
{
    if (round_ == 2 && rank == 0 && strcmp(directory, "-") != 0)
        fill();
    meet();
    say("round %d", round_);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc > 3)
        directory = argv[3];
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
