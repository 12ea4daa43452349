/* Ends with MPI_Abort in the last round, with a status of its own. */
#include "check.h"

static void content(void)
{
    meet();
    say("round %d", round_);
    if (round_ == rounds - 1) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == size - 1)
            MPI_Abort(MPI_COMM_WORLD, 37);
        sleep(20);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
