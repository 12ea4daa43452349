/*
 * Sessions without MPI_Init, or after MPI_Finalize: instances ROUNDS PAUSE HOW.
 *
 * HOW is one of:
 *
 * - `once`: one session lasts from beginning to end
 * - `again`: each session lasts for three rounds; then there is none for a
 *   moment (Open MPI 5.0.11 alone crashes in this case)
 * - `world`: as `once`, and MPI_Init and MPI_Finalize are called in the middle
 * - `after`: MPI_Init and MPI_Finalize are called first, then as `again`
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static MPI_Session session = MPI_SESSION_NULL;
static MPI_Comm all = MPI_COMM_NULL;
static int rank, size, errors, failures;

#define CHECK(condition) ((condition) ? (void)0 : (void)(failures++, printf("FAILED %s (line %d)\n", #condition, __LINE__)))

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = a * 0x9e3779b97f4a7c15u + b + 0x1234567u;
    return z ^ (z >> 29);
}

static void note(MPI_Session *of, int *code, ...)
{
    (void)of;
    errors += *code != MPI_SUCCESS;
}

/* Opens a session and makes a communicator of all its processes. */
static void start(const char *tag)
{
    MPI_Info info;
    MPI_Group group;
    MPI_Info_create(&info);
    MPI_Info_set(info, "thread_level", "MPI_THREAD_FUNNELED");
    CHECK(MPI_Session_init(info, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
    MPI_Info_free(&info);
    CHECK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group) == MPI_SUCCESS);
    CHECK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &all) == MPI_SUCCESS);
    MPI_Group_free(&group);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
}

static void stop(void)
{
    MPI_Comm_free(&all);
    CHECK(MPI_Session_finalize(&session) == MPI_SUCCESS && session == MPI_SESSION_NULL);
}

/* Prints the values of the processes, once each, in the order of ranks. */
static void tell(int round, uint64_t value)
{
    uint64_t values[64];
    MPI_Gather(&value, 1, MPI_UINT64_T, values, 1, MPI_UINT64_T, 0, all);
    if (rank == 0) {
        printf("round %d:", round);
        for (int r = 0; r < size; r++)
            printf(" %08x", (unsigned)values[r]);
        printf("\n");
        fflush(stdout);
    }
}

static uint64_t work(int round, uint64_t value)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    uint64_t came, sum;
    MPI_Comm halves;
    MPI_Sendrecv(&value, 1, MPI_UINT64_T, right, round, &came, 1, MPI_UINT64_T, left, round, all, MPI_STATUS_IGNORE);
    value = mix(value, came);
    MPI_Comm_split(all, rank % 2, rank, &halves);
    MPI_Allreduce(&value, &sum, 1, MPI_UINT64_T, MPI_SUM, halves);
    MPI_Comm_free(&halves);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_BXOR, all);
    return mix(value, sum);
}

/* The World Model, during a session or before any. */
static void world(int argc, char **argv)
{
    int flag, own, sum, is_first = session == MPI_SESSION_NULL;
    MPI_Initialized(&flag);
    CHECK(!flag);
    CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
    MPI_Initialized(&flag);
    CHECK(flag);
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    if (is_first) {
        rank = own;
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        MPI_Comm_dup(MPI_COMM_WORLD, &all);
    }
    CHECK(own == rank);
    for (int round = 0; round < 4; round++) {
        MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK(sum == size * (size - 1) / 2);
        tell(1000 + round, work(round, sum));
    }
    MPI_Finalized(&flag);
    CHECK(!flag);
    if (is_first)
        MPI_Comm_free(&all);
    CHECK(MPI_Finalize() == MPI_SUCCESS);
    MPI_Finalized(&flag);
    CHECK(flag);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 24, pause = argc > 2 ? atoi(argv[2]) : 0, flag;
    const char *how = argc > 3 ? argv[3] : "once";
    int is_after = strcmp(how, "after") == 0, has_world = is_after || strcmp(how, "world") == 0;
    MPI_Errhandler handler;
    MPI_Initialized(&flag);
    CHECK(!flag);
    if (is_after) {
        world(argc, argv);
        usleep(10000 * pause); /* no session is open meanwhile */
    }
    /* This procedure may be called before any other. */
    MPI_Session_create_errhandler(note, &handler);
    start("first");
    uint64_t value = mix(rank, 1);
    for (int round = 0; round < rounds; round++) {
        if (round % 3 == 2 && (is_after || strcmp(how, "again") == 0)) {
            char tag[32];
            stop();
            sprintf(tag, "round %d", round);
            start(tag);
            MPI_Session_set_errhandler(session, handler);
            MPI_Session_call_errhandler(session, MPI_ERR_ARG);
        }
        value = work(round, value);
        tell(round, value);
        usleep(1000 * pause);
        if (round == rounds / 2 && strcmp(how, "world") == 0)
            world(argc, argv);
    }
    MPI_Initialized(&flag);
    CHECK(flag == has_world);
    MPI_Errhandler_free(&handler);
    stop();
    /* All later work may be lost with its process, and must be repeated then. */
    usleep(1000 * pause * (rank + 1));
    value = mix(value, rank);
    printf("rank %d ends: %08x, %d errors\n", rank, (unsigned)value, errors);
    return failures != 0;
}
