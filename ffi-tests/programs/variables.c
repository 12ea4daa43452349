/*
 * Control variables that say how communicators add up: a communicator keeps what was in force when it was made.
 * (Open MPI's; MPICH looks at its variables in each call.)
 */
#include "check.h"

enum { VALUES = 64, ALGORITHMS = 4, COMMS = ALGORITHMS + 4 };

static MPI_Comm comms[COMMS];
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

static int choose(int value)
{
    return write_variable("coll_tuned_allreduce_algorithm", value);
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

/* Made before anything was written, and after each write; with a topology, and of the same values again; with other values in each half. */
static void make(void)
{
    int provided, periodic = 1;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[ALGORITHMS]);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    write_variable("coll_tuned_use_dynamic_rules", 1);
    for (int i = 0; i < ALGORITHMS; i++) {
        CHECK(choose(i + 1));
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    }
    choose(1);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &comms[ALGORITHMS + 1]);
    choose(rank % 2 ? 1 : 4);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &comms[ALGORITHMS + 2]);
    choose(2);
    MPI_Comm_dup(comms[ALGORITHMS + 1], &comms[ALGORITHMS + 3]);
    /* What was written lasts. */
    MPI_T_finalize();
}

static void content(void)
{
    MPI_Comm shortlived;
    int provided;
    for (int i = 0; i < COMMS; i++) {
        say("%d: %016llx", i, (unsigned long long)sums(comms[i]));
        meet();
    }
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    CHECK(choose(1 + round_ % ALGORITHMS));
    MPI_Comm_dup(MPI_COMM_WORLD, &shortlived);
    meet();
    choose(1 + (round_ + 1) % ALGORITHMS);
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
    make();
    /* Else nothing is tried here. */
    CHECK(sums(comms[0]) != sums(comms[1]) && sums(comms[0]) != sums(comms[3]));
    all_rounds(content);
    for (int i = 0; i < COMMS; i++)
        MPI_Comm_free(&comms[i]);
    MPI_Finalize();
    return 0;
}
