/* Communicators are made in several threads concurrently (MPI_THREAD_MULTIPLE),
 * by procedures that are not collective over one communicator.
 *
 *   constructors ROUNDS [ports]
 *
 * One thread makes intercommunicators, one makes communicators of groups within a
 * communicator, and one makes communicators of groups alone. With `ports`, one
 * thread accepts the process below and one connects to the process above. Two of
 * the threads wait in a constructor for other ranks. These ranks call the
 * constructor only when they have received a message from another thread of the
 * waiting process. */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BRIDGE = 1, GROUP, TO_GROUPS, TO_BRIDGES, PORT, THREADS = 5 };
static int rank, size, rounds;
static MPI_Comm own[THREADS], half;
static uint64_t sums[THREADS];
/* The last round in which a thread has reached its constructor. */
static atomic_int bridges_at, groups_at;

static uint64_t mixed(uint64_t value)
{
    return value * 6364136223846793005u + 1442695040888963407u;
}

/* Waits until a thread of this process has reached a round, and some time more. */
static void after(atomic_int *reached, int round)
{
    while (atomic_load(reached) < round)
        usleep(20);
    usleep(100);
}

/*
 * The sum of a number over both sides of an intercommunicator, or over a
 * communicator, which is freed.
 */
static uint64_t added(MPI_Comm *comm, uint64_t value)
{
    uint64_t sum = 0;
    int is_inter;
    MPI_Comm_test_inter(*comm, &is_inter);
    MPI_Allreduce(&value, &sum, 1, MPI_UINT64_T, MPI_SUM, *comm);
    if (is_inter) {
        MPI_Comm both;
        MPI_Intercomm_merge(*comm, rank % 2, &both);
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, both);
        MPI_Comm_free(&both);
    }
    MPI_Comm_free(comm);
    return sum;
}

/*
 * Makes intercommunicators between the even and the odd ranks. Rank 1 begins
 * after a message from the thread of `groups` of rank 0. That thread sends the
 * message when this thread of rank 0 is in MPI.
 */
static void *bridges(void *unused)
{
    (void)unused;
    uint64_t state = rank;
    for (int round = 1; round <= rounds; round++) {
        MPI_Comm inter;
        if (rank == 1) {
            after(&groups_at, round);
            MPI_Send(NULL, 0, MPI_INT, 0, TO_GROUPS, MPI_COMM_WORLD);
            MPI_Recv(NULL, 0, MPI_INT, 0, TO_BRIDGES, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        atomic_store(&bridges_at, round);
        MPI_Intercomm_create(half, 0, own[0], 1 - rank % 2, BRIDGE, &inter);
        state = mixed(state ^ added(&inter, state));
    }
    sums[0] = state;
    return NULL;
}

/*
 * Makes communicators of all ranks, or of all ranks but one above 1. Rank 0 begins
 * after a message from the thread of `bridges` of rank 1.
 */
static void *groups(void *unused)
{
    (void)unused;
    MPI_Group all, some;
    MPI_Comm_group(own[1], &all);
    uint64_t state = rank * 3;
    for (int round = 1; round <= rounds; round++) {
        int without = 2 + round % (size - 1);
        MPI_Comm comm = MPI_COMM_NULL;
        MPI_Group_excl(all, without < size, &without, &some);
        if (rank == 0)
            MPI_Recv(NULL, 0, MPI_INT, 1, TO_GROUPS, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        atomic_store(&groups_at, round);
        if (rank != without)
            MPI_Comm_create_group(own[1], some, GROUP, &comm);
        if (rank == 0) {
            after(&bridges_at, round);
            MPI_Send(NULL, 0, MPI_INT, 1, TO_BRIDGES, MPI_COMM_WORLD);
        }
        if (comm != MPI_COMM_NULL)
            state = mixed(state ^ added(&comm, state));
        MPI_Group_free(&some);
    }
    MPI_Group_free(&all);
    sums[1] = state;
    return NULL;
}

/*
 * Makes communicators without a parent communicator: of all ranks, and between the
 * lower and the upper half.
 */
static void *alone(void *unused)
{
    (void)unused;
    MPI_Group all, sides[2];
    MPI_Comm_group(own[2], &all);
    int ranges[2][1][3] = {{{0, size / 2 - 1, 1}}, {{size / 2, size - 1, 1}}}, mine = rank >= size / 2;
    for (int i = 0; i < 2; i++)
        MPI_Group_range_incl(all, 1, ranges[i], &sides[i]);
    uint64_t state = rank * 5;
    for (int round = 1; round <= rounds; round++) {
        MPI_Comm comm;
        MPI_Comm_create_from_group(all, "all", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
        state = mixed(state ^ added(&comm, state));
        MPI_Intercomm_create_from_groups(sides[mine], 0, sides[1 - mine], 0, "both", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
        uint64_t sum;
        MPI_Allreduce(&state, &sum, 1, MPI_UINT64_T, MPI_SUM, comm);
        MPI_Comm_free(&comm);
        state = mixed(state ^ sum);
    }
    for (int i = 0; i < 2; i++)
        MPI_Group_free(&sides[i]);
    MPI_Group_free(&all);
    sums[2] = state;
    return NULL;
}

static char here[MPI_MAX_PORT_NAME], above[MPI_MAX_PORT_NAME];

static uint64_t told(MPI_Comm *inter, uint64_t value)
{
    uint64_t heard;
    MPI_Sendrecv(&value, 1, MPI_UINT64_T, 0, PORT, &heard, 1, MPI_UINT64_T, 0, PORT, *inter, MPI_STATUS_IGNORE);
    MPI_Comm_disconnect(inter);
    return heard;
}

static void *accepts(void *unused)
{
    (void)unused;
    uint64_t state = rank * 7;
    for (int round = 1; round <= rounds; round++) {
        MPI_Comm inter;
        MPI_Comm_accept(here, MPI_INFO_NULL, 0, own[3], &inter);
        state = mixed(state ^ told(&inter, state));
    }
    sums[3] = state;
    return NULL;
}

static void *connects(void *unused)
{
    (void)unused;
    uint64_t state = rank * 11;
    for (int round = 1; round <= rounds; round++) {
        MPI_Comm inter;
        MPI_Comm_connect(above, MPI_INFO_NULL, 0, own[4], &inter);
        state = mixed(state ^ told(&inter, state));
    }
    sums[4] = state;
    return NULL;
}

int main(int argc, char **argv)
{
    int level, threads = argc > 2 ? THREADS : THREADS - 2;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rounds = argc > 1 ? atoi(argv[1]) : 20;
    if (level < MPI_THREAD_MULTIPLE || size < 2)
        abort();
    for (int i = 0; i < threads; i++)
        MPI_Comm_dup(i < 3 ? MPI_COMM_WORLD : MPI_COMM_SELF, &own[i]);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    if (threads == THREADS) {
        MPI_Open_port(MPI_INFO_NULL, here);
        MPI_Sendrecv(here, sizeof here, MPI_CHAR, (rank + size - 1) % size, PORT, above, sizeof above, MPI_CHAR, (rank + 1) % size, PORT,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    void *(*work[THREADS])(void *) = {bridges, groups, alone, accepts, connects};
    pthread_t thread[THREADS];
    for (int i = 0; i < threads; i++)
        pthread_create(&thread[i], NULL, work[i], NULL);
    double value = rank, all;
    for (int step = 1; step <= 10 * rounds; step++) {
        MPI_Allreduce(&value, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        value = value * 0.75 + all / (1 + step % 7);
        usleep(500);
        if (rank == 0 && step % rounds == 0) {
            printf("step %d: %.17g\n", step, all);
            fflush(stdout);
        }
    }
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    uint64_t state = rank;
    for (int i = 0; i < threads; i++) {
        state = mixed(state ^ sums[i]);
        MPI_Comm_free(&own[i]);
    }
    if (threads == THREADS)
        MPI_Close_port(here);
    MPI_Comm_free(&half);
    MPI_Allreduce(MPI_IN_PLACE, &state, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("all: %016llx\n", (unsigned long long)state);
    MPI_Finalize();
    return 0;
}
