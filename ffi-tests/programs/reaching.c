/* Windows of workers and of processes that these have spawned (MPI 4.1, chapters 11 and
 * 12).
 *
 *   reaching ROUNDS STEPS [KIND]
 *
 * Each round spawns two processes and merges them with the workers. All of them put,
 * get and accumulate in windows of each kind: created, allocated, dynamic. The last
 * window outlives the communicators. KIND: windows of this kind only (0, 1, 2). All
 * print their values. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHILDREN = 2, ROOM = 8, KINDS = 3 };

static double memory[ROOM];
static MPI_Aint places[16];

/* Displacement of a member's memory: an address in a dynamic window. */
static MPI_Aint at(int kind, int rank, int index)
{
    return kind == 2 ? places[rank] + index * (MPI_Aint)sizeof(double) : index;
}

static MPI_Win make(int kind, MPI_Comm all, double **own)
{
    MPI_Win win;
    if (kind == 0) {
        *own = memory;
        MPI_Win_create(memory, sizeof memory, sizeof(double), MPI_INFO_NULL, all, &win);
    } else if (kind == 1) {
        MPI_Win_allocate(sizeof memory, sizeof(double), MPI_INFO_NULL, all, own, &win);
    } else {
        MPI_Aint place;
        *own = memory;
        MPI_Win_create_dynamic(MPI_INFO_NULL, all, &win);
        MPI_Win_attach(win, memory, sizeof memory);
        MPI_Get_address(memory, &place);
        MPI_Allgather(&place, 1, MPI_AINT, places, 1, MPI_AINT, all);
    }
    return win;
}

/* Between fences: each member puts to the next member, and gets from the one after it. */
static double fenced(int kind, MPI_Win win, double *own, int rank, int size, double value)
{
    double got = 0;
    int next = (rank + 1) % size, after = (rank + 2) % size;
    MPI_Win_fence(0, win);
    MPI_Put(&value, 1, MPI_DOUBLE, next, at(kind, next, 0), 1, MPI_DOUBLE, win);
    MPI_Win_fence(0, win);
    MPI_Get(&got, 1, MPI_DOUBLE, after, at(kind, after, 0), 1, MPI_DOUBLE, win);
    MPI_Win_fence(0, win);
    double mine = own[0];
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    return mine + 0.5 * got;
}

/* Under locks: all add to the first member's memory, and draw numbers there. */
static double locked(int kind, MPI_Win win, double *own, int rank, MPI_Comm all, double value)
{
    /* Integers: their sum does not depend on the order of arrival. */
    double one = 1, number = 0, sum, share = (double)(long)(1024 * value);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    own[1] = own[2] = 0;
    MPI_Win_unlock(rank, win);
    MPI_Barrier(all);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Accumulate(&share, 1, MPI_DOUBLE, 0, at(kind, 0, 1), 1, MPI_DOUBLE, MPI_SUM, win);
    MPI_Fetch_and_op(&one, &number, MPI_DOUBLE, 0, at(kind, 0, 2), MPI_SUM, win);
    MPI_Win_unlock(0, win);
    MPI_Barrier(all);
    MPI_Request request;
    MPI_Win_lock_all(0, win);
    MPI_Rget(&sum, 1, MPI_DOUBLE, 0, at(kind, 0, 1), 1, MPI_DOUBLE, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_flush_all(win);
    MPI_Win_unlock_all(win);
    MPI_Barrier(all);
    /* The sum does not depend on the order in which the members have drawn numbers. */
    MPI_Allreduce(MPI_IN_PLACE, &number, 1, MPI_DOUBLE, MPI_SUM, all);
    return number + sum / 1024;
}

/* Between post and wait, start and complete: each puts to the member before it. */
static double posted(int kind, MPI_Win win, double *own, int rank, int size, double value)
{
    MPI_Group all, origins, targets;
    int from[] = {(rank + 1) % size}, to[] = {(rank + size - 1) % size}, has_ended = 0, its_size;
    MPI_Win_get_group(win, &all);
    MPI_Group_size(all, &its_size);
    MPI_Group_incl(all, 1, from, &origins);
    MPI_Group_incl(all, 1, to, &targets);
    MPI_Win_post(origins, 0, win);
    MPI_Win_start(targets, 0, win);
    MPI_Put(&value, 1, MPI_DOUBLE, to[0], at(kind, to[0], 3), 1, MPI_DOUBLE, win);
    MPI_Win_complete(win);
    if (rank % 2 == 0)
        MPI_Win_wait(win);
    while (rank % 2 != 0 && !has_ended)
        MPI_Win_test(win, &has_ended);
    MPI_Group_free(&all);
    MPI_Group_free(&origins);
    MPI_Group_free(&targets);
    return own[3] + its_size;
}

/*
 * Work of both sides, after which the communicators are freed. `between` runs a
 * collective of the workers while only the last window exists.
 */
static double reach(MPI_Comm *inter, int is_high, int steps, int only, double value, void (*between)(double))
{
    int rank, size;
    MPI_Comm all;
    MPI_Win win;
    double *own;
    MPI_Intercomm_merge(*inter, is_high, &all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    for (int kind = 0; kind < KINDS; kind++) {
        if (only >= 0 && kind != only)
            continue;
        win = make(kind, all, &own);
        char name[MPI_MAX_OBJECT_NAME];
        int length, *flavor, is_set;
        MPI_Win_set_name(win, "a window");
        MPI_Win_get_name(win, name, &length);
        MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &is_set);
        value += length + *flavor;
        for (int step = 0; step < steps; step++) {
            value = 0.5 * value + 0.1 * fenced(kind, win, own, rank, size, value);
            value = 0.9 * value + 0.01 * locked(kind, win, own, rank, all, value);
            value = 0.9 * value + 0.01 * posted(kind, win, own, rank, size, value);
        }
        if (kind == 2)
            MPI_Win_detach(win, own);
        MPI_Win_free(&win);
    }
    win = make(0, all, &own);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(inter);
    between(value);
    value += fenced(0, win, own, rank, size, value) + posted(0, win, own, rank, size, value);
    MPI_Win_free(&win);
    return value;
}

static void compute(double value)
{
    double sum;
    for (int step = 0; step < 15; step++)
        MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void nothing(double value)
{
    (void)value;
}

static int child(MPI_Comm parent, int argc, char **argv)
{
    int rank, steps = atoi(argv[2]), round = atoi(argv[3]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double value = reach(&parent, 1, steps, argc > 4 ? atoi(argv[4]) : -1, 10 + rank + round, nothing);
    printf("child %d of round %d: %.6e\n", rank, round, value);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return child(parent, argc, argv);
    int rounds = atoi(argv[1]), steps = atoi(argv[2]), rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double value = rank, sum;
    for (int round = 0; round < rounds; round++) {
        char number[16];
        snprintf(number, sizeof number, "%d", round);
        char *arguments[] = {"child", argv[2], number, argc > 3 ? argv[3] : NULL, NULL};
        int codes[CHILDREN];
        MPI_Comm inter;
        MPI_Comm_spawn(argv[0], arguments, CHILDREN, MPI_INFO_NULL, round % 2, MPI_COMM_WORLD, &inter, codes);
        value = reach(&inter, 0, steps, argc > 3 ? atoi(argv[3]) : -1, value, compute);
        compute(value);
        MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        value = 0.1 * value + 0.01 * sum;
        if (rank == 0) {
            printf("round %d: %.6e\n", round, value);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
