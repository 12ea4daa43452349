/*
 * Root changes its effective group after MPI_Init.
 */
#include "check.h"

static void content(void)
{
    if (round_ == 8)
        say("%s", setegid(1) == 0 ? "group 1" : "the group stays");
    say("group %d", getegid() == 1);
    meet();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
