/*
 * One-sided communication: access and exposure epochs of all kinds, which are open while
 * the state may be saved; atomic operations, requests, attributes.
 */
#include "check.h"

enum { CELLS = 512, OWN = 8 };

/* A window with fences, between which there are collectives. */
static MPI_Win fenced;
static int *field;
/* A window that all ranks have locked from the first round to the last one. */
static MPI_Win shared;
static long counters[CELLS];
/* A window of every second process, which the processes lock in turn. */
static MPI_Comm half;
static MPI_Win turns;
static int *turn;
/* A window with general active target epochs of neighbours. */
static MPI_Win general;
static double edges[2 * OWN];
static MPI_Win dynamic;
static int *attached;
static MPI_Aint *places;
static MPI_Win brief, own;
static int *own_cells;
static int *briefly;
static MPI_Errhandler on_error;
static int key, deleted, errors;
static MPI_Datatype spaced;

static int right(void) { return (rank + 1) % size; }
static int left(void) { return (rank + size - 1) % size; }

static int value(int r, int i)
{
    return 10000 * (round_ % 100) + 100 * r + i;
}

static void note_error(MPI_Win *win, int *code, ...)
{
    int class;
    (void)win;
    MPI_Error_class(*code, &class);
    errors += class == MPI_ERR_RANK ? 1 : 1000;
}

static int on_delete(MPI_Win win, int keyval, void *attribute, void *extra)
{
    (void)win;
    deleted += keyval == key && attribute == extra;
    return MPI_SUCCESS;
}

static void make(void)
{
    MPI_Win_allocate(CELLS * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &field, &fenced);
    memset(field, 0, CELLS * sizeof(int));
    MPI_Win_set_name(fenced, "between fences");
    MPI_Win_fence(MPI_MODE_NOPRECEDE, fenced);
    MPI_Win_create(counters, sizeof counters, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &shared);
    MPI_Win_lock_all(0, shared);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Win_allocate(OWN * sizeof(int), sizeof(int), MPI_INFO_NULL, half, &turn, &turns);
    memset(turn, 0, OWN * sizeof(int));
    /* A window outlives its communicator. */
    MPI_Comm_free(&half);
    MPI_Win_create(edges, sizeof edges, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &general);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &dynamic);
    attached = calloc(OWN, sizeof(int));
    places = calloc(size, sizeof *places);
    MPI_Win_attach(dynamic, attached, OWN * sizeof(int));
    MPI_Get_address(attached, &places[rank]);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_AINT, places, 1, MPI_AINT, MPI_COMM_WORLD);
    MPI_Win_create_errhandler(note_error, &on_error);
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, on_delete, &key, counters);
    MPI_Type_vector(4, 1, 2, MPI_INT, &spaced);
    MPI_Type_commit(&spaced);
    MPI_Win_allocate_shared(OWN * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_SELF, &own_cells, &own);
    memset(own_cells, 0, OWN * sizeof(int));
}

/*
 * Data that are put before a collective are visible after the next fence, wherever the
 * state has been saved.
 */
static void between_fences(void)
{
    int *mine = malloc(CELLS / 2 * sizeof(int)), *theirs = malloc(CELLS / 2 * sizeof(int)), packed[4];
    for (int i = 0; i < CELLS / 2; i++)
        mine[i] = value(rank, i);
    MPI_Put(mine, CELLS / 2, MPI_INT, right(), 0, CELLS / 2, MPI_INT, fenced);
    meet();
    MPI_Win_fence(0, fenced);
    for (int i = 0; i < CELLS / 2; i++)
        MUST(field[i] == value(left(), i));
    MPI_Get(theirs, CELLS / 2, MPI_INT, left(), 0, CELLS / 2, MPI_INT, fenced);
    meet();
    MPI_Win_fence(0, fenced);
    for (int i = 0; i < CELLS / 2; i++)
        MUST(theirs[i] == value((rank + 2 * size - 2) % size, i));
    /* After the first half there is a sum; every second cell of the end is unchanged. */
    MPI_Accumulate(mine, 4, MPI_INT, 0, CELLS / 2, 4, MPI_INT, MPI_SUM, fenced);
    for (int i = 0; i < 4; i++)
        packed[i] = value(rank, 200 + i);
    MPI_Put(packed, 4, MPI_INT, left(), CELLS - 8, 1, spaced, fenced);
    MPI_Win_fence(0, fenced);
    say("fences: %d %d %d %d", field[0], theirs[1], field[CELLS / 2], field[CELLS / 2 + 3]);
    for (int i = 0; i < 4; i++)
        MUST(field[CELLS - 8 + 2 * i] == value(right(), 200 + i) && field[CELLS - 7 + 2 * i] == 0);
    free(mine);
    free(theirs);
}

static void with_a_lock_of_all(void)
{
    long one = 1, before = -1, most = value(rank, 0), seen = -1, none = -1;
    /* The order of the counting ranks is random, but not the final count. */
    MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 0, MPI_SUM, shared);
    MPI_Win_flush(0, shared);
    MUST(before >= (long)round_ * size && before < (long)(round_ + 1) * size);
    MPI_Accumulate(&most, 1, MPI_LONG, right(), 1, 1, MPI_LONG, MPI_MAX, shared);
    meet();
    MPI_Win_flush_all(shared);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Fetch_and_op(NULL, &seen, MPI_LONG, right(), 1, MPI_NO_OP, shared);
    MPI_Win_flush_local(right(), shared);
    MUST(seen == most || round_ % 100 == 0);
    MPI_Win_sync(shared);
    say("locked: %ld %ld", counters[1], rank == 0 ? counters[0] : 0L);
    MUST(rank != 0 || counters[0] == (long)(round_ + 1) * size);
    /* One of all ranks wins. */
    long free_ = 0, me = rank + 1, winner = -1;
    MPI_Compare_and_swap(&me, &free_, &winner, MPI_LONG, 0, 2 + round_ % 100, shared);
    MPI_Win_flush_all(shared);
    long wins = winner == 0, all = 0;
    MPI_Allreduce(&wins, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    CHECK(all == (round_ < 100));
    /* Operations with requests, some of which are waited for after a collective. */
    long mine[16], theirs[16], olds[2], more[2] = {1, 2};
    MPI_Request requests[4];
    for (int i = 0; i < 16; i++)
        mine[i] = value(rank, i);
    MPI_Rput(mine, 16, MPI_LONG, right(), 200, 16, MPI_LONG, shared, &requests[0]);
    MPI_Raccumulate(more, 2, MPI_LONG, right(), 240, 2, MPI_LONG, MPI_SUM, shared, &requests[1]);
    meet();
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Win_flush_all(shared);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Rget(theirs, 16, MPI_LONG, left(), 200, 16, MPI_LONG, shared, &requests[2]);
    MPI_Rget_accumulate(&none, 1, MPI_LONG, olds, 2, MPI_LONG, right(), 240, 2, MPI_LONG, MPI_NO_OP, shared, &requests[3]);
    meet();
    MPI_Waitall(2, requests + 2, MPI_STATUSES_IGNORE);
    CHECK(requests[2] == MPI_REQUEST_NULL && requests[3] == MPI_REQUEST_NULL);
    for (int i = 0; i < 16; i++)
        MUST(theirs[i] == value((rank + 2 * size - 2) % size, i));
    MUST(olds[0] == round_ + 1 && olds[1] == 2 * (round_ + 1));
    MPI_Barrier(MPI_COMM_WORLD);
}

/* One member has an exclusive lock during a collective; later all have shared locks. */
static void with_locks_in_turns(void)
{
    MPI_Group members;
    int n, me, old = -1, sum = 0;
    MPI_Win_get_group(turns, &members);
    MPI_Group_size(members, &n);
    MPI_Group_rank(members, &me);
    MPI_Group_free(&members);
    CHECK(n == (size + 1 - rank % 2) / 2);
    int to = (round_ + 1) % n;
    if (me == round_ % n) {
        int next = value(me, 7);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, turns);
        MPI_Get(&old, 1, MPI_INT, to, 0, 1, MPI_INT, turns);
        MPI_Win_flush_local_all(turns);
        MPI_Put(&next, 1, MPI_INT, to, 0, 1, MPI_INT, turns);
        meet();
        MPI_Win_unlock(to, turns);
        say("turn: %d after %d", next, old);
    } else {
        meet();
    }
    int mine = me + 1;
    MPI_Win_lock(MPI_LOCK_SHARED, to, 0, turns);
    MPI_Accumulate(&mine, 1, MPI_INT, to, 1, 1, MPI_INT, MPI_SUM, turns);
    meet();
    MPI_Win_unlock(to, turns);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, to, 0, turns);
    MPI_Get(&sum, 1, MPI_INT, to, 1, 1, MPI_INT, turns);
    MPI_Win_unlock(to, turns);
    say("turns: %d", sum);
    MPI_Barrier(MPI_COMM_WORLD);
}

/*
 * The state may be saved anywhere in these epochs: before any start, with active
 * operations, and when some operations have completed.
 */
static void with_general_epochs(void)
{
    MPI_Group world, to, from, nobody = MPI_GROUP_EMPTY;
    int ranks[2] = {right(), left()}, flag = 0, own[2] = {rank, right()};
    double mine[OWN], theirs[OWN], more = rank;
    for (int i = 0; i < OWN; i++)
        mine[i] = value(rank, i) / 8.0;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &ranks[0], &to);
    MPI_Group_incl(world, 1, &ranks[1], &from);
    MPI_Win_post(from, 0, general);
    meet();
    MPI_Win_start(to, 0, general);
    MPI_Put(mine, OWN, MPI_DOUBLE, right(), OWN, OWN, MPI_DOUBLE, general);
    meet();
    MPI_Win_complete(general);
    mine[0] = -1;
    meet();
    if (round_ % 2)
        MPI_Win_wait(general);
    else
        while (!flag)
            MPI_Win_test(general, &flag);
    for (int i = 0; i < OWN; i++)
        MUST(edges[OWN + i] == value(left(), i) / 8.0);
    say("general: %g", edges[OWN]);
    MPI_Group_free(&to);
    MPI_Group_free(&from);
    /*
     * Each process is a target of itself and its left neighbour, and an origin for
     * itself and its right neighbour. Origins read and add.
     */
    own[1] = left();
    MPI_Group_incl(world, size > 1 ? 2 : 1, own, &from);
    own[1] = right();
    MPI_Group_incl(world, size > 1 ? 2 : 1, own, &to);
    edges[0] = 0;
    for (int i = 1; i < OWN; i++)
        edges[i] = value(rank, i) / 4.0;
    MPI_Win_post(from, MPI_MODE_NOSTORE, general);
    MPI_Win_start(to, 0, general);
    MPI_Get(theirs, OWN - 1, MPI_DOUBLE, right(), 1, OWN - 1, MPI_DOUBLE, general);
    MPI_Accumulate(&more, 1, MPI_DOUBLE, right(), 0, 1, MPI_DOUBLE, MPI_SUM, general);
    MPI_Accumulate(&more, 1, MPI_DOUBLE, rank, 0, 1, MPI_DOUBLE, MPI_SUM, general);
    meet();
    MPI_Win_complete(general);
    meet();
    MPI_Win_wait(general);
    for (int i = 1; i < OWN; i++)
        MUST(theirs[i - 1] == value(right(), i) / 4.0);
    CHECK(edges[0] == rank + left());
    MPI_Win_post(nobody, 0, general);
    MPI_Win_start(nobody, 0, general);
    meet();
    MPI_Win_complete(general);
    MPI_Win_wait(general);
    MPI_Group_free(&world);
    MPI_Group_free(&to);
    MPI_Group_free(&from);
    meet();
}

static void with_attached_memory(void)
{
    int mine = value(rank, 3);
    MPI_Win_lock(MPI_LOCK_SHARED, right(), 0, dynamic);
    MPI_Put(&mine, 1, MPI_INT, right(), MPI_Aint_add(places[right()], sizeof(int)), 1, MPI_INT, dynamic);
    meet();
    MPI_Win_unlock(right(), dynamic);
    MPI_Barrier(MPI_COMM_WORLD);
    MUST(attached[1] == value(left(), 3));
    say("attached: %d", attached[1]);
    MPI_Barrier(MPI_COMM_WORLD);
    if (round_ % 5 == 4) {
        MPI_Win_detach(dynamic, attached);
        meet();
        MPI_Win_attach(dynamic, attached, OWN * sizeof(int));
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* A window that lives for three rounds. */
static void come_and_go(void)
{
    if (round_ % 4 == 0) {
        MPI_Win_allocate(sizeof(int) * (64 + rank), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &briefly, &brief);
        briefly[0] = briefly[1] = rank;
        MPI_Win_set_errhandler(brief, on_error);
        MPI_Win_set_attr(brief, key, counters);
        MPI_Win_fence(0, brief);
    }
    if (round_ % 4 != 3) {
        int one = 1;
        MPI_Accumulate(&one, 1, MPI_INT, right(), 0, 1, MPI_INT, MPI_SUM, brief);
        MPI_Win_fence(round_ % 4 == 2 ? MPI_MODE_NOSUCCEED : 0, brief);
        CHECK(briefly[0] == rank + round_ % 4 + 1);
    }
    if (round_ % 4 == 1) {
        int before = errors;
        MPI_Win_call_errhandler(brief, MPI_ERR_RANK);
        CHECK(errors == before + 1);
#ifdef OPEN_MPI
        CHECK(MPI_Put(&before, 1, MPI_INT, size, 0, 1, MPI_INT, brief) != MPI_SUCCESS);
        CHECK(errors == before + 2);
#endif
    }
    if (round_ % 4 == 2) {
        int before = deleted;
        meet();
        MPI_Win_free(&brief);
        CHECK(brief == MPI_WIN_NULL && deleted == before + 1);
    }
    meet();
}

static void ask(void)
{
    void *base;
    MPI_Aint *bytes;
    int *number, flag, length;
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Info info;
    MPI_Errhandler handler;
    MPI_Win_get_attr(fenced, MPI_WIN_BASE, &base, &flag);
    CHECK(flag && base == field);
    MPI_Win_get_attr(fenced, MPI_WIN_SIZE, &bytes, &flag);
    CHECK(flag && *bytes == CELLS * (MPI_Aint)sizeof(int));
#if MPI_VERSION > 4 || MPI_VERSION == 4 && MPI_SUBVERSION >= 1
    MPI_Aint here;
    MPI_Win_shared_query(fenced, rank, &here, &length, &base);
    CHECK(base == field && here == *bytes && length == sizeof(int));
#endif
    MPI_Win_get_attr(shared, MPI_WIN_DISP_UNIT, &number, &flag);
    CHECK(flag && *number == sizeof(long));
    MPI_Win_get_attr(fenced, MPI_WIN_CREATE_FLAVOR, &number, &flag);
    CHECK(flag && *number == MPI_WIN_FLAVOR_ALLOCATE);
    MPI_Win_get_attr(dynamic, MPI_WIN_CREATE_FLAVOR, &number, &flag);
    CHECK(flag && *number == MPI_WIN_FLAVOR_DYNAMIC);
    MPI_Win_get_attr(general, MPI_WIN_MODEL, &number, &flag);
    CHECK(flag && *number == MPI_WIN_UNIFIED);
    MPI_Win_get_attr(general, key, &base, &flag);
    CHECK(!flag);
    MPI_Win_get_name(fenced, name, &length);
    say("name: %s %d", name, length);
    MPI_Win_get_info(shared, &info);
    MPI_Info_free(&info);
    CHECK(info == MPI_INFO_NULL);
    MPI_Win_get_errhandler(fenced, &handler);
    CHECK(handler == MPI_ERRORS_ARE_FATAL);
#ifndef MPI_ABI_VERSION
    CHECK(MPI_Win_f2c(MPI_Win_c2f(shared)) == shared && MPI_Win_f2c(MPI_Win_c2f(MPI_WIN_NULL)) == MPI_WIN_NULL);
#endif
}

/* Shared memory of a single process. */
static void by_itself(void)
{
    int *base, unit, *flavor, flag, seen = -1, add = rank + 1, last = own_cells[OWN - 1];
    MPI_Aint bytes;
    MPI_Win_shared_query(own, MPI_PROC_NULL, &bytes, &unit, &base);
    CHECK(base == own_cells && bytes == OWN * (MPI_Aint)sizeof(int) && unit == sizeof(int));
    MPI_Win_get_attr(own, MPI_WIN_CREATE_FLAVOR, &flavor, &flag);
    CHECK(flag && *flavor == MPI_WIN_FLAVOR_SHARED);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, own);
    MPI_Fetch_and_op(&add, &seen, MPI_INT, 0, OWN - 1, MPI_SUM, own);
    meet();
    MPI_Win_unlock_all(own);
    CHECK(seen == last && own_cells[OWN - 1] == last + add);
    say("by itself: %d", own_cells[OWN - 1]);
}

static void content(void)
{
    by_itself();
    between_fences();
    with_a_lock_of_all();
    with_locks_in_turns();
    with_general_epochs();
    with_attached_memory();
    come_and_go();
    ask();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    start_rounds(argc, argv);
    make();
    all_rounds(content);
    if (brief != MPI_WIN_NULL && rounds % 4 != 0 && rounds % 4 != 3)
        MPI_Win_free(&brief);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, fenced);
    MPI_Win_unlock_all(shared);
    MPI_Win_free(&own);
    MPI_Win_free(&fenced);
    MPI_Win_free(&shared);
    MPI_Win_free(&turns);
    MPI_Win_free(&general);
    MPI_Win_detach(dynamic, attached);
    MPI_Win_free(&dynamic);
    MPI_Win_free_keyval(&key);
    MPI_Errhandler_free(&on_error);
    MPI_Type_free(&spaced);
    if (rank == 0)
        printf("done %d\n", key == MPI_KEYVAL_INVALID);
    MPI_Finalize();
    return 0;
}
