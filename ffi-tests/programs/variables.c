/*
 * Control variables that determine the algorithm of MPI_Allreduce. In Open MPI, a
 * communicator keeps the values that the variables had at its creation; MPICH reads its
 * variables in each call. Variables are written before communicators are made; with a
 * third argument, also between the creations of communicators.
 */
#include "check.h"

enum { VALUES = 64, ALGORITHMS = 4, COMMS = ALGORITHMS + 4 };

static const char *const ALGORITHM = "coll_tuned_allreduce_algorithm";
static MPI_Comm comms[COMMS];
static int count, is_between;
static double values[VALUES];

static int write_variable(const char *name, int value)
{
    MPI_T_cvar_handle handle;
    int index, count;
    if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS)
        return 0;
    MUST(MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) == MPI_SUCCESS && count == 1);
    MUST(MPI_T_cvar_write(handle, &value) == MPI_SUCCESS);
    MPI_T_cvar_handle_free(&handle);
    return 1;
}

static int read_variable(const char *name)
{
    MPI_T_cvar_handle handle;
    int index, elements, value = -1;
    MUST(MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS);
    MUST(MPI_T_cvar_handle_alloc(index, NULL, &handle, &elements) == MPI_SUCCESS && elements == 1);
    MUST(MPI_T_cvar_read(handle, &value) == MPI_SUCCESS);
    MPI_T_cvar_handle_free(&handle);
    return value;
}

static int choose(int value)
{
    return write_variable(ALGORITHM, value);
}

static uint64_t sums(MPI_Comm comm)
{
    double result[VALUES];
    uint64_t sum = 14695981039346656037u;
    MPI_Allreduce(values, result, VALUES, MPI_DOUBLE, MPI_SUM, comm);
    for (size_t i = 0; i < sizeof result; i++)
        sum = (sum ^ ((unsigned char *)result)[i]) * 1099511628211u;
    return sum;
}

/*
 * Makes communicators with the current values of the variables: of all ranks, with a
 * topology, and of each half.
 */
static void make_three(void)
{
    int periodic = 1;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[count++]);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &comms[count++]);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &comms[count++]);
}

static void make(void)
{
    int provided;
    if (is_between)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[count++]);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    write_variable("coll_tuned_use_dynamic_rules", 1);
    for (int i = 0; is_between && i < ALGORITHMS; i++) {
        CHECK(choose(i + 1));
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[count++]);
    }
    choose(2);
    CHECK(choose(4));
    make_three();
    /* The value does not change. */
    CHECK(choose(4));
    /* A written value stays. */
    MPI_T_finalize();
}

static void content(void)
{
    MPI_Comm shortlived;
    int provided;
    for (int i = 0; i < count; i++) {
        say("%d: %016llx", i, (unsigned long long)sums(comms[i]));
        meet();
    }
    say("world: %016llx", (unsigned long long)sums(MPI_COMM_WORLD));
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    if (is_between)
        CHECK(choose(1 + round_ % ALGORITHMS));
    MPI_Comm_dup(MPI_COMM_WORLD, &shortlived);
    meet();
    if (is_between)
        choose(1 + (round_ + 1) % ALGORITHMS);
    say("values %d %d", read_variable(ALGORITHM), read_variable("coll_tuned_use_dynamic_rules"));
    MPI_T_finalize();
    meet();
    say("short: %016llx", (unsigned long long)sums(shortlived));
    meet();
    MPI_Comm_free(&shortlived);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    start_rounds(argc, argv);
    for (int i = 0; i < VALUES; i++)
        values[i] = (1 + rank) * 1e-3 / (i + 3) + (rank == i % size ? 1e13 : rank == (i + 1) % size ? -1e13 : 0);
    is_between = argc > 3;
    make();
    /* If the variables had no effect on sums, the program would test nothing. */
    CHECK(sums(comms[count - 3]) != sums(MPI_COMM_WORLD));
    all_rounds(content);
    for (int i = 0; i < count; i++)
        MPI_Comm_free(&comms[i]);
    MPI_Finalize();
    return 0;
}
