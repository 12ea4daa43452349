/*
 * Receives that stay posted over many collectives, in another order than that of their
 * requests in memory. The oldest receive always completes first, and its request is
 * reused. All receives match the same messages, so each receive must get the message
 * that is due by the order of posting (MPI 4.1, section 3.5). Some receives are
 * persistent, some take any source or tag, and some are cancelled.
 *
 *     posting [steps [receiver]]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 5, TAG = 5 };

static MPI_Request requests[SLOTS];
static int values[SLOTS];
/* The slots of the posted receives, the oldest first. */
static int posted[SLOTS], count;
static int receiver, sender;

static int is_persistent(int slot)
{
    return slot % 2;
}

static int source(int slot)
{
    return slot < 2 ? sender : MPI_ANY_SOURCE;
}

static int tag(int slot)
{
    return slot < 4 ? TAG : MPI_ANY_TAG;
}

static void post(int slot)
{
    if (is_persistent(slot))
        MPI_Start(&requests[slot]);
    else
        MPI_Irecv(&values[slot], 1, MPI_INT, source(slot), tag(slot), MPI_COMM_WORLD, &requests[slot]);
    posted[count++] = slot;
}

/* Waits for the oldest receive and removes it from the order. */
static int end_oldest(MPI_Status *status)
{
    int slot = posted[0];
    MPI_Wait(&requests[slot], status);
    for (int i = 1; i < count; i++)
        posted[i - 1] = posted[i];
    count--;
    return slot;
}

static void meet(void)
{
    int one = 1, all;
    MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

/* The receiver's part of a step; the received message is printed. */
static void step(int number)
{
    int slot = end_oldest(MPI_STATUS_IGNORE);
    printf("step %d: slot %d has message %d\n", number, slot, values[slot]);
    fflush(stdout);
    post(slot);
}

static void begin(void)
{
    MPI_Request backwards[SLOTS];
    int started = 0;
    for (int slot = SLOTS - 1; slot >= 0; slot--) {
        if (!is_persistent(slot))
            continue;
        MPI_Recv_init(&values[slot], 1, MPI_INT, source(slot), tag(slot), MPI_COMM_WORLD, &requests[slot]);
        backwards[started++] = requests[slot];
        posted[count++] = slot;
    }
    MPI_Startall(started, backwards);
    for (int slot = 0; slot < SLOTS; slot++)
        if (!is_persistent(slot))
            post(slot);
}

int main(int argc, char **argv)
{
    int rank, steps = argc > 1 ? atoi(argv[1]) : 12, sent = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    receiver = argc > 2 ? atoi(argv[2]) : 1;
    sender = 1 - receiver;
    if (rank == receiver)
        begin();
    for (int number = 0; number < steps; number++) {
        int cancelled = -1, was;
        MPI_Status status;
        if (rank == sender) {
            MPI_Send(&sent, 1, MPI_INT, receiver, TAG, MPI_COMM_WORLD);
            sent++;
        }
        if (rank == receiver) {
            step(number);
            if (number % 3 != 0) {
                cancelled = posted[--count];
                MPI_Cancel(&requests[cancelled]);
            }
        }
        meet();
        if (cancelled >= 0) {
            MPI_Wait(&requests[cancelled], &status);
            MPI_Test_cancelled(&status, &was);
            printf("step %d: slot %d was%s cancelled\n", number, cancelled, was ? "" : " not");
            post(cancelled);
        }
        meet();
    }
    for (int left = 0; left < SLOTS; left++) {
        if (rank == sender) {
            MPI_Send(&sent, 1, MPI_INT, receiver, TAG, MPI_COMM_WORLD);
            sent++;
        }
        if (rank == receiver) {
            int slot = end_oldest(MPI_STATUS_IGNORE);
            printf("at the end: slot %d has message %d\n", slot, values[slot]);
        }
    }
    MPI_Finalize();
    return 0;
}
