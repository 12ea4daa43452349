/*
 * MPI files: views, file pointers of all kinds, non-blocking and split procedures,
 * sizes, names and errors, in every round.
 */
#include "check.h"

enum { ROWS = 12, COLUMNS = 8, BLOCK = 64 };

static MPI_File grid, record, own, memo;
static int handled;

static int class_of(int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

static double value(int who, int i)
{
    return round_ * 1e4 + who * 1e3 + i;
}

static void on_error(MPI_File *file, int *code, ...)
{
    handled += file != NULL && *code != MPI_SUCCESS;
}

static MPI_File open_file(const char *name, int mode, MPI_Comm comm)
{
    MPI_File file;
    MUST(MPI_File_open(comm, name, mode, MPI_INFO_NULL, &file) == MPI_SUCCESS);
    return file;
}

static void open_all(void)
{
    char name[32];
    int mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
    grid = open_file("grid.dat", mode, MPI_COMM_WORLD);
    record = open_file("record.dat", mode, MPI_COMM_WORLD);
    memo = open_file("memo.dat", mode, MPI_COMM_WORLD);
    snprintf(name, sizeof name, "own.%d", rank);
    own = open_file(name, mode, MPI_COMM_SELF);
    /* The content of gaps that were never written is undefined. */
    static char zeros[1024];
    MPI_File_write_at(own, 0, zeros, sizeof zeros, MPI_BYTE, MPI_STATUS_IGNORE);
}

static uint64_t sum_of(const void *bytes, size_t length)
{
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < length; i++)
        sum = (sum ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
    return sum;
}

/*
 * The columns of a matrix of each process: overwritten in every round, read by the
 * neighbour.
 */
static void columns(void)
{
    int sizes[2] = {ROWS, size * COLUMNS}, part[2] = {ROWS, COLUMNS}, start[2] = {0, 0};
    double mine[ROWS * COLUMNS], theirs[ROWS * COLUMNS];
    MPI_Datatype type;
    MPI_Status status;
    for (int i = 0; i < ROWS * COLUMNS; i++)
        mine[i] = value(rank, i);
    memset(theirs, 0, sizeof theirs);
    start[1] = rank * COLUMNS;
    MPI_Type_create_subarray(2, sizes, part, start, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    MPI_File_set_view(grid, 0, MPI_DOUBLE, type, "native", MPI_INFO_NULL);
    MPI_Type_free(&type);
    meet();
    MPI_File_write_all(grid, mine, ROWS * COLUMNS / 2, MPI_DOUBLE, &status);
    meet();
    MPI_File_write_all(grid, mine + ROWS * COLUMNS / 2, ROWS * COLUMNS / 2, MPI_DOUBLE, &status);
    int count;
    MPI_Get_count(&status, MPI_DOUBLE, &count);
    MPI_Offset at, place;
    MPI_File_get_position(grid, &at);
    MPI_File_get_byte_offset(grid, COLUMNS + 1, &place);
    say("wrote %d, at %lld, unit %d is at %lld", count, (long long)at, COLUMNS + 1, (long long)place);
    MPI_File_sync(grid);
    meet();
    MPI_File_sync(grid);
    start[1] = (rank + 1) % size * COLUMNS;
    MPI_Type_create_subarray(2, sizes, part, start, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    MPI_File_set_view(grid, 0, MPI_DOUBLE, type, "native", MPI_INFO_NULL);
    MPI_Type_free(&type);
    MPI_File_read_at_all(grid, 0, theirs, ROWS * COLUMNS, MPI_DOUBLE, &status);
    MPI_Get_count(&status, MPI_DOUBLE, &count);
    int wrong = 0;
    for (int i = 0; i < ROWS * COLUMNS; i++)
        wrong += theirs[i] != value((rank + 1) % size, i);
    CHECK(wrong == 0 && count == ROWS * COLUMNS);
    meet();
}

/*
 * Blocks that several processes overwrite, one after the other, and a tail that is
 * added and removed.
 */
static void overlaps(void)
{
    char bytes[BLOCK];
    MPI_Offset length;
    int base = 8 * ROWS * COLUMNS * size;
    MPI_File_set_view(grid, base, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    for (int turn = 0; turn < size; turn++) {
        if (turn == (rank + round_) % size) {
            memset(bytes, 'a' + (round_ + rank) % 26, sizeof bytes);
            MPI_File_write_at(grid, turn * BLOCK / 2, bytes, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE);
        }
        MPI_File_sync(grid);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_File_sync(grid);
    }
    meet();
    if (round_ % 3 == 1)
        MPI_File_set_size(grid, base + BLOCK / 4);
    else if (round_ % 3 == 2)
        MPI_File_set_size(grid, base + 1000 + 10 * round_);
    MPI_File_get_size(grid, &length);
    say("%lld bytes", (long long)length);
    MPI_File_seek(grid, -2, MPI_SEEK_END);
    MPI_File_get_position(grid, &length);
    say("2 before the end: %lld", (long long)length);
    memset(bytes, 0, sizeof bytes);
    MPI_Status status;
    int count;
    MPI_File_read_at(grid, 0, bytes, BLOCK, MPI_BYTE, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    say("%d: %016llx", count, (unsigned long long)sum_of(bytes, count));
    meet();
}

/* The shared pointer. */
static void in_turns(void)
{
    int many[16], count = 2 + (rank + round_) % 4;
    MPI_Offset at;
    for (int i = 0; i < 16; i++)
        many[i] = 10000 * round_ + 100 * rank + i;
    MPI_File_write_ordered(record, many, count, MPI_INT, MPI_STATUS_IGNORE);
    meet();
    for (int turn = 0; turn < size; turn++) {
        if (turn == rank)
            MPI_File_write_shared(record, many, 1, MPI_INT, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_File_get_position_shared(record, &at);
    say("shared at %lld", (long long)at);
    meet();
    MPI_File_write_ordered_begin(record, many, count, MPI_INT);
    meet();
    MPI_File_write_ordered_end(record, many, MPI_STATUS_IGNORE);
    MPI_File_get_position_shared(record, &at);
    MPI_File_sync(record);
    meet();
    MPI_File_sync(record);
    MPI_File_seek_shared(record, at - 4 * 2 * size, MPI_SEEK_SET);
    meet();
    MPI_File_read_ordered(record, many, 2, MPI_INT, MPI_STATUS_IGNORE);
    say("%d %d", many[0], many[1]);
    MPI_File_get_position_shared(record, &at);
    MPI_File_seek_shared(record, 0, MPI_SEEK_END);
    MPI_File_get_position_shared(record, &at);
    say("shared at %lld", (long long)at);
    meet();
}

/*
 * Memory and file with gaps, a growing file of each process, and the individual
 * pointer.
 */
static void alone(void)
{
    int from[60], to[60], count;
    MPI_Datatype memory, tile, every;
    MPI_Status status;
    MPI_Offset at, displacement;
    MPI_Aint extent;
    char name[MPI_MAX_DATAREP_STRING];
    for (int i = 0; i < 60; i++)
        from[i] = 1000 * round_ + i;
    memset(to, 0, sizeof to);
    MPI_Type_vector(5, 2, 4, MPI_INT, &memory);
    MPI_Type_commit(&memory);
    MPI_Type_vector(2, 1, 3, MPI_INT, &tile);
    MPI_Type_create_resized(tile, 0, 6 * sizeof(int), &every);
    MPI_Type_commit(&every);
    MPI_File_set_view(own, 8 * (round_ % 5), MPI_INT, every, "native", MPI_INFO_NULL);
    MPI_File_seek(own, round_ * 3, MPI_SEEK_SET);
    MPI_File_write(own, from, 2, memory, &status);
    MPI_Get_elements(&status, memory, &count);
    meet();
    MPI_File_seek(own, -10, MPI_SEEK_CUR);
    MPI_File_get_position(own, &at);
    MPI_File_read(own, to, 1, memory, &status);
    say("%d elements, at %lld: %016llx", count, (long long)at, (unsigned long long)sum_of(to, sizeof to));
    /* The end is not sought, since Open MPI 5.0 does not find it in a view with gaps. */
    MPI_File_get_type_extent(own, every, &extent);
    say("extent %ld", (long)extent);
    meet();
    MPI_File_get_view(own, &displacement, &memory, &tile, name);
    say("%lld %s", (long long)displacement, name);
    MPI_Type_free(&tile);
    MPI_Type_free(&every);
    meet();
}

/* Non-blocking and split collective procedures. */
static void meanwhile(void)
{
    double out_[3 * BLOCK], in_[3 * BLOCK], (*out)[BLOCK] = (void *)out_, (*in)[BLOCK] = (void *)in_;
    MPI_Request requests[3];
    MPI_Status statuses[3];
    int count;
    for (int i = 0; i < 3 * BLOCK; i++)
        out_[i] = value(rank, i);
    memset(in_, 0, sizeof in_);
    MPI_File_set_view(memo, 0, MPI_DOUBLE, MPI_DOUBLE, "native", MPI_INFO_NULL);
    MPI_Offset base = (MPI_Offset)rank * 3 * BLOCK;
    MPI_File_seek(memo, base + BLOCK, MPI_SEEK_SET);
    MPI_File_iwrite_at(memo, base, out[0], BLOCK, MPI_DOUBLE, &requests[0]);
    MPI_File_iwrite(memo, out[1], BLOCK / 2, MPI_DOUBLE, &requests[1]);
    MPI_File_iwrite(memo, out[1] + BLOCK / 2, BLOCK / 2, MPI_DOUBLE, &requests[2]);
    meet();
    MPI_Waitall(3, requests, statuses);
    MPI_Get_count(&statuses[1], MPI_DOUBLE, &count);
    say("wrote %d", count);
    meet();
    MPI_File_write_at_all_begin(memo, base + 2 * BLOCK, out[2], BLOCK, MPI_DOUBLE);
    meet();
    MPI_File_write_at_all_end(memo, out[2], &statuses[0]);
    MPI_File_sync(memo);
    meet();
    MPI_File_sync(memo);
    base = (MPI_Offset)((rank + 1) % size) * 3 * BLOCK;
    MPI_File_iread_at(memo, base, in[0], BLOCK, MPI_DOUBLE, &requests[0]);
    meet();
    MPI_Wait(&requests[0], &statuses[0]);
    CHECK(requests[0] == MPI_REQUEST_NULL);
    MPI_File_seek(memo, base + BLOCK, MPI_SEEK_SET);
    MPI_File_read_all_begin(memo, in[1], BLOCK, MPI_DOUBLE);
    meet();
    MPI_File_read_all_end(memo, in[1], &statuses[1]);
    MPI_File_iread_at_all(memo, base + 2 * BLOCK, in[2], BLOCK, MPI_DOUBLE, &requests[2]);
    meet();
    MPI_Wait(&requests[2], &statuses[2]);
    int wrong = 0;
    for (int i = 0; i < 3 * BLOCK; i++)
        wrong += in_[i] != value((rank + 1) % size, i);
    MPI_Get_count(&statuses[2], MPI_DOUBLE, &count);
    CHECK(wrong == 0 && count == BLOCK);
    meet();
}

/* A distributed array, in a file that is made again in every round. */
static void dealt(void)
{
    int sizes[2] = {6, 4 * size + 3}, ways[2] = {MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_CYCLIC};
    int arguments[2] = {MPI_DISTRIBUTE_DFLT_DARG, 2}, processes[2] = {1, size}, bytes;
    MPI_Datatype type;
    MPI_Info info, used;
    MPI_Type_create_darray(size, rank, 2, sizes, ways, arguments, processes, MPI_ORDER_C, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Type_size(type, &bytes);
    int *part = malloc(bytes + 1), count = bytes / (int)sizeof(int);
    for (int i = 0; i < count; i++)
        part[i] = 1000 * round_ + 100 * rank + i;
    MPI_Info_create(&info);
    MPI_Info_set(info, "access_style", "write_once");
    if (rank == 0 && round_ % 2)
        MPI_File_delete("dealt.dat", MPI_INFO_NULL);
    meet();
    MPI_File file;
    MPI_File_open(MPI_COMM_WORLD, "dealt.dat", MPI_MODE_CREATE | MPI_MODE_WRONLY, info, &file);
    MPI_File_get_info(file, &used);
    MUST(used != MPI_INFO_NULL);
    MPI_Info_free(&used);
    MPI_Info_free(&info);
    MPI_File_set_view(file, 16, MPI_INT, type, "native", MPI_INFO_NULL);
    MPI_Type_free(&type);
    MPI_File_write_at_all(file, 0, part, count, MPI_INT, MPI_STATUS_IGNORE);
    meet();
    MPI_File_close(&file);
    CHECK(file == MPI_FILE_NULL);
    free(part);
    meet();
}

static void names_and_errors(void)
{
    MPI_File file = MPI_FILE_NULL, reader;
    MPI_Errhandler handler, now;
    MPI_Group group;
    int code, mode, members, flag, number = round_;
    /* Open MPI 5.0 does not make such an error collective. */
    code = MPI_File_open(MPI_COMM_SELF, "grid.dat", MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    say("exclusive: %d", class_of(code) == MPI_ERR_FILE_EXISTS);
    code = MPI_File_open(MPI_COMM_SELF, "none.dat", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    say("none: %d", class_of(code) == MPI_ERR_NO_SUCH_FILE);
    code = MPI_File_delete("none.dat", MPI_INFO_NULL);
    say("none to delete: %d", class_of(code) == MPI_ERR_NO_SUCH_FILE);
    meet();
    file = open_file("brief.dat", MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_COMM_WORLD);
    MPI_File_write_at(file, rank * sizeof number, &number, 1, MPI_INT, MPI_STATUS_IGNORE);
    meet();
    MPI_File_set_atomicity(file, 1);
    MPI_File_get_atomicity(file, &flag);
    MPI_File_get_amode(file, &mode);
    MPI_File_get_group(file, &group);
    MPI_Group_size(group, &members);
    MPI_Group_free(&group);
    MPI_Barrier(MPI_COMM_WORLD);
    number = -1;
    MPI_File_read_at(file, (rank + 1) % size * sizeof number, &number, 1, MPI_INT, MPI_STATUS_IGNORE);
    say("atomic %d, mode %d, %d members, %d", flag, mode, members, number == round_);
    meet();
    MPI_File_close(&file);
    CHECK(access("brief.dat", F_OK) != 0);
    reader = open_file("grid.dat", MPI_MODE_RDONLY, MPI_COMM_SELF);
    MPI_File_create_errhandler(on_error, &handler);
    MPI_File_set_errhandler(reader, handler);
    MPI_File_get_errhandler(reader, &now);
    CHECK(now == handler);
    MPI_Errhandler_free(&now);
    MPI_Errhandler_free(&handler);
    meet();
    handled = 0;
    /* MPICH returns success if the handler returns. */
    MPI_File_write_at(reader, 0, &number, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_call_errhandler(reader, MPI_ERR_IO);
    say("handled %d", handled);
#ifndef MPI_ABI_VERSION
    CHECK(MPI_File_f2c(MPI_File_c2f(reader)) == reader);
#endif
    MPI_File_close(&reader);
    meet();
}

static void content(void)
{
    if (round_ == 0)
        open_all();
    columns();
    overlaps();
    in_turns();
    alone();
    meanwhile();
    dealt();
    names_and_errors();
    if (round_ == rounds - 1) {
        MPI_File_close(&grid);
        MPI_File_close(&record);
        MPI_File_close(&memo);
        MPI_File_close(&own);
    }
}

MAIN(content)
