/*
 * One process holds unchecked locks of all parts of a window and polls its own part,
 * while the others change that part under exclusive locks. Coarray programs post and
 * await events in this way.
 */
#include "check.h"

static MPI_Win events;
static volatile int *count;

static void wait_for(int expected)
{
    MPI_Win_lock_all(MPI_MODE_NOCHECK, events);
    for (int times = 0; *count < expected; times++) {
        MPI_Win_sync(events);
        usleep(times < 100 ? 10 : 1000);
        MPI_Win_flush(rank, events);
    }
    MPI_Win_unlock_all(events);
}

static void post(int target)
{
    int one = 1;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, events);
    MPI_Accumulate(&one, 1, MPI_INT, target, 0, 1, MPI_INT, MPI_SUM, events);
    MPI_Win_unlock(target, events);
}

static void content(void)
{
    for (int waiter = 0; waiter < size; waiter++) {
        if (rank == waiter) {
            wait_for((round_ + 1) * (size - 1));
        } else {
            usleep(500 * rank);
            post(waiter);
        }
        if (waiter % 2 == 0)
            meet();
    }
    /* No other process requests these locks. */
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, MPI_MODE_NOCHECK, events);
    meet();
    say("%d events", *count);
    MPI_Win_unlock(rank, events);
    meet();
}

int main(int argc, char **argv)
{
    int *place;
    MPI_Init(&argc, &argv);
    start_rounds(argc, argv);
    MPI_Win_allocate(sizeof *place, sizeof *place, MPI_INFO_NULL, MPI_COMM_WORLD, &place, &events);
    *place = 0;
    count = place;
    MPI_Barrier(MPI_COMM_WORLD);
    all_rounds(content);
    MPI_Win_free(&events);
    MPI_Finalize();
    return 0;
}
