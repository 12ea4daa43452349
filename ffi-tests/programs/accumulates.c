/*
 * Accumulates of all kinds on memory that the library has allocated: contended,
 * of derived datatypes, of pairs, with requests.
 */
#include "check.h"
#include <stddef.h>

enum { TIMES = 40 };

/* Memory of a process in a window. */
struct cells {
    long count, spaced[8], guard, lock, owned;
    double sums[3];
    struct { double value; int where; } pairs[4];
    int bits, last;
};

static MPI_Win given, shared;
static struct cells *own_given, *own_shared;
static MPI_Datatype spaced, spread_pairs;

#define AT(member) offsetof(struct cells, member)

static void make(void)
{
    MPI_Win_allocate(sizeof(struct cells), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &own_given, &given);
    MPI_Win_allocate_shared(sizeof(struct cells), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &own_shared, &shared);
    memset(own_given, 0, sizeof *own_given);
    memset(own_shared, 0, sizeof *own_shared);
    MPI_Datatype one_long;
    MPI_Type_contiguous(1, MPI_LONG, &one_long);
    MPI_Type_vector(4, 1, 2, one_long, &spaced);
    MPI_Type_commit(&spaced);
    MPI_Type_free(&one_long);
    MPI_Type_vector(2, 1, 2, MPI_DOUBLE_INT, &spread_pairs);
    MPI_Type_commit(&spread_pairs);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, given);
    MPI_Win_lock_all(0, shared);
}

/* Adds to a guarded cell while holding the lock, then frees the lock. */
static void guarded(MPI_Win win, int to)
{
    long mine = rank + 1, free_ = 0, holder = -1, one = 1, before, after;
    MPI_Request request;
    do {
        MPI_Compare_and_swap(&mine, &free_, &holder, MPI_LONG, to, AT(lock), win);
        MPI_Win_flush(to, win);
    } while (holder != 0);
    MPI_Get(&before, 1, MPI_LONG, to, AT(guard), 1, MPI_LONG, win);
    MPI_Win_flush(to, win);
    after = before + 1;
    MPI_Put(&after, 1, MPI_LONG, to, AT(guard), 1, MPI_LONG, win);
    MPI_Win_flush(to, win);
    MPI_Raccumulate(&free_, 1, MPI_LONG, to, AT(lock), 1, MPI_LONG, MPI_REPLACE, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_flush(to, win);
    MPI_Accumulate(&one, 1, MPI_LONG, to, AT(owned), 1, MPI_LONG, MPI_SUM, win);
}

static void all_kinds(MPI_Win win, int to)
{
    long one = 1, old = -1, steps[4] = {1, 2, 3, 4}, seen[4];
    double parts[3] = {0.5, 1, 1.5};
    int bit = 1 << rank, got, number = -1;
    struct { double value; int where; } pairs[3] = {{round_ + rank, rank}, {0, 0}, {-round_, 7}};
    MPI_Request request;
    MPI_Fetch_and_op(&one, &old, MPI_LONG, to, AT(count), MPI_SUM, win);
    MPI_Win_flush(to, win);
    MUST(old >= 0);
    MPI_Accumulate(steps, 4, MPI_LONG, to, AT(spaced), 1, spaced, MPI_SUM, win);
    MPI_Get_accumulate(NULL, 0, MPI_LONG, seen, 4, MPI_LONG, to, AT(spaced), 1, spaced, MPI_NO_OP, win);
    MPI_Win_flush(to, win);
    MUST(seen[1] == 2 * seen[0] && seen[2] == 3 * seen[0] && seen[3] == 4 * seen[0] && seen[0] > 0);
    MPI_Accumulate(parts, 3, MPI_DOUBLE, to, AT(sums), 3, MPI_DOUBLE, MPI_SUM, win);
    MPI_Accumulate(pairs, 1, spread_pairs, to, AT(pairs), 1, spread_pairs, MPI_MAXLOC, win);
    MPI_Rget_accumulate(&bit, 1, MPI_INT, &got, 1, MPI_INT, to, AT(bits), 1, MPI_INT, MPI_BXOR, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Accumulate(&number, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, win);
    MPI_Accumulate(&rank, 1, MPI_INT, to, AT(last), 1, MPI_INT, MPI_MAX, win);
}

static void tell(const char *name, MPI_Win win, const struct cells *own)
{
    MPI_Win_sync(win);
    say("%s: %ld %ld %ld %ld | %ld %ld %ld %ld | %g %g %g | %g %d %g %d | %d %d", name, own->count, own->guard, own->lock,
        own->owned, own->spaced[0], own->spaced[1], own->spaced[4], own->spaced[6], own->sums[0], own->sums[1],
        own->sums[2], own->pairs[0].value, own->pairs[0].where, own->pairs[2].value, own->pairs[2].where, own->bits,
        own->last);
}

static void content(void)
{
    for (int i = 0; i < TIMES; i++)
        for (int to = 0; to < size; to++) {
            all_kinds(given, to);
            all_kinds(shared, to);
            if (i % 8 == 0)
                guarded(i % 16 ? given : shared, to);
        }
    MPI_Win_flush_all(given);
    MPI_Win_flush_all(shared);
    meet();
    tell("given", given, own_given);
    tell("shared", shared, own_shared);
    meet();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    start_rounds(argc, argv);
    make();
    all_rounds(content);
    MPI_Win_unlock_all(given);
    MPI_Win_unlock_all(shared);
    MPI_Win_free(&given);
    MPI_Win_free(&shared);
    MPI_Type_free(&spaced);
    MPI_Type_free(&spread_pairs);
    MPI_Finalize();
    return 0;
}
