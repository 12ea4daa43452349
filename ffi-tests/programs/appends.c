/*
 * A child process of each rank appends to a file of the rank, once, between two meetings.
 */
#include "check.h"

static void content(void)
{
    char command[64];
    meet();
    if (round_ == 2) {
        snprintf(command, sizeof command, "echo line >> file.%d", rank);
        CHECK(system(command) == 0);
    }
    meet();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
