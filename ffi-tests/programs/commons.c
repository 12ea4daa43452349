/*
 * Memory that the processes of a node share as windows: written and read by
 * pointers, by one-sided operations, and across collectives.
 */
#include "check.h"

enum { BIG = 1 << 17, ROW = 700 };

/* Segments of different sizes without gaps; rank 1 has none. */
static MPI_Win uneven;
static char *bytes;
/* All memory belongs to rank 0, as in most programs. */
static MPI_Win table;
static double *entries;
/* Rows of a field, each beginning at a page; neighbours read each other's rows. */
static MPI_Win apart;
static long *row, **rows;
/* A window of every second process, which lives for three rounds. */
static MPI_Win brief;
static int *briefly;

static int right(void) { return (rank + 1) % size; }
static int left(void) { return (rank + size - 1) % size; }

static MPI_Aint uneven_size(int r) { return r == 1 ? 0 : 5000 + 1111 * r; }

static char letter(int r, int i) { return 'a' + (r * 7 + i + round_) % 26; }

static void together(MPI_Win win)
{
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
}

/* Empty segments have no address in a window whose segments begin at pages. */
static void with_empty_parts(MPI_Info info)
{
    MPI_Win holes;
    char *mine, *theirs;
    MPI_Aint length;
    int unit;
    MPI_Win_allocate_shared(rank % 2 ? 0 : 3, 1, info, MPI_COMM_WORLD, &mine, &holes);
    for (int i = 0; i < size; i++) {
        MPI_Win_shared_query(holes, i, &length, &unit, &theirs);
        /* Open MPI returns sizes in whole pages. */
        CHECK(i % 2 ? length == 0 && theirs == NULL : length >= 3 && theirs != NULL);
    }
    MPI_Win_free(&holes);
}

static void make(void)
{
    MPI_Info info;
    double *mine;
    int unit;
    MPI_Aint length;
    MPI_Win_allocate_shared(uneven_size(rank), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &bytes, &uneven);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, uneven);
    MPI_Win_allocate_shared(rank == 0 ? BIG * sizeof(double) : 0, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &table);
    MPI_Win_shared_query(table, MPI_PROC_NULL, &length, &unit, &entries);
    CHECK(length == BIG * sizeof(double) && unit == sizeof(double));
    MPI_Win_lock_all(MPI_MODE_NOCHECK, table);
    for (int i = rank; i < BIG; i += size)
        entries[i] = i;
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", "true");
    MPI_Win_allocate_shared(ROW * sizeof(long), sizeof(long), info, MPI_COMM_WORLD, &row, &apart);
    rows = calloc(size, sizeof *rows);
    for (int i = 0; i < size; i++)
        MPI_Win_shared_query(apart, i, &length, &unit, &rows[i]);
    CHECK(rows[rank] == row);
    with_empty_parts(info);
    MPI_Info_free(&info);
    for (int i = 0; i < ROW; i++)
        row[i] = rank * ROW + i;
    MPI_Win_fence(0, apart);
    MPI_Barrier(MPI_COMM_WORLD);
}

/*
 * Each process writes into the segment of its right neighbour; some segments
 * begin within a page.
 */
static void without_holes(void)
{
    char *theirs, *first;
    MPI_Aint length, all = 0;
    int unit;
    MPI_Win_shared_query(uneven, right(), &length, &unit, &theirs);
    CHECK(length == uneven_size(right()) && unit == 1);
    for (int i = 0; i < length; i++)
        theirs[i] = letter(rank, i);
    meet();
    together(uneven);
    for (int i = 0; i < uneven_size(rank); i++)
        MUST(bytes[i] == letter(left(), i));
    MPI_Win_shared_query(uneven, 0, &length, &unit, &first);
    /* Segments are consecutive. MPICH has no address for an empty one. */
    char *nothing = NULL;
#ifdef OPEN_MPI
    nothing = first + uneven_size(0);
#endif
    for (int r = 0; r < size; r++) {
        MPI_Win_shared_query(uneven, r, &length, &unit, &theirs);
        MUST(theirs == (length == 0 ? nothing : first + all));
        all += length;
    }
    long sum = 0;
    for (int i = 0; i < all; i++)
        sum = sum * 31 + first[i];
    say("letters: %ld", sum);
    meet();
}

/* A table of which each process changes a part, and which all read. */
static void with_a_table(void)
{
    double sum = 0, step = 1, seen = -1;
    for (int i = rank + size * (round_ % 50); i < BIG; i += 50 * size)
        entries[i] = entries[i] * 0.5 + rank + round_;
    together(table);
    meet();
    for (int i = 0; i < BIG; i++)
        sum += entries[i];
    say("table: %.17g", sum);
    together(table);
    /* The last entry is a counter, changed by the library. */
    MPI_Fetch_and_op(&step, &seen, MPI_DOUBLE, 0, BIG - 1, MPI_SUM, table);
    MPI_Win_flush(0, table);
    MUST(seen >= 0);
    meet();
    together(table);
}

/* Each row depends on its neighbours, in part by messages of the window. */
static void with_neighbours(void)
{
    static long next[ROW];
    const long *up = rows[left()], *down = rows[right()];
    for (int i = 0; i < ROW; i++)
        next[i] = (up[i] * 3 + down[(i + 1) % ROW] * 5 + row[i]) % 1000003;
    MPI_Win_fence(0, apart);
    MPI_Put(next, ROW / 2, MPI_LONG, rank, 0, ROW / 2, MPI_LONG, apart);
    meet();
    memcpy(row + ROW / 2, next + ROW / 2, (ROW - ROW / 2) * sizeof *row);
    MPI_Win_fence(0, apart);
    say("row: %ld %ld", row[0], row[ROW - 1]);
}

static void come_and_go(void)
{
    if (round_ % 4 == 0) {
        MPI_Comm half;
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
        MPI_Win_allocate_shared((64 + rank) * sizeof(int), sizeof(int), MPI_INFO_NULL, half, &briefly, &brief);
        MPI_Comm_free(&half);
        MPI_Win_fence(0, brief);
    }
    if (round_ % 4 != 3) {
        int *first, unit;
        MPI_Aint length;
        MPI_Win_shared_query(brief, 0, &length, &unit, &first);
        first[1 + rank] = briefly[0] = 100 * rank + round_;
        MPI_Win_fence(0, brief);
        for (int r = rank % 2; r < size; r += 2)
            MUST(first[1 + r] == 100 * r + round_);
        meet();
        MPI_Win_fence(0, brief);
    }
    if (round_ % 4 == 2) {
        MPI_Win_free(&brief);
        CHECK(brief == MPI_WIN_NULL);
    }
    meet();
}

static void ask(void)
{
    int *flavor, flag, unit;
    MPI_Aint length;
    void *base;
    MPI_Win_get_attr(apart, MPI_WIN_CREATE_FLAVOR, &flavor, &flag);
    CHECK(flag && *flavor == MPI_WIN_FLAVOR_SHARED);
    MPI_Win_get_attr(apart, MPI_WIN_BASE, &base, &flag);
    CHECK(flag && base == row);
    MPI_Win_shared_query(uneven, MPI_PROC_NULL, &length, &unit, &base);
    CHECK(length == uneven_size(0));
}

static void content(void)
{
    without_holes();
    with_a_table();
    with_neighbours();
    come_and_go();
    ask();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    start_rounds(argc, argv);
    make();
    all_rounds(content);
    MPI_Win_unlock_all(uneven);
    MPI_Win_free(&uneven);
    MPI_Win_unlock_all(table);
    /* Unfreed windows do no harm. */
    MPI_Finalize();
    return 0;
}
