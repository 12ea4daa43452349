/*
 * Hangs: in the last but one round, worker 2 receives a message that no worker
 * sends, while all others are in MPI_Barrier.
 *
 *     mismatch [rounds [pause in milliseconds]]
 */
#include "check.h"

static void content(void)
{
    meet();
    say("round %d", round_);
    if (round_ == rounds - 2 && rank == 2) {
        int value;
        MPI_Recv(&value, 1, MPI_INT, 0, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
