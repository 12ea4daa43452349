/* Views that contain bytes more than once, appending, and errors of one process only. */
#include "check.h"

static int class_of(int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

static MPI_File open_file(const char *name, int mode)
{
    MPI_File file = MPI_FILE_NULL;
    MUST(MPI_File_open(MPI_COMM_WORLD, name, mode, MPI_INFO_NULL, &file) == MPI_SUCCESS);
    return file;
}

/* The numbers 0, 1, 2 … */
static void make(const char *name)
{
    int numbers[64];
    for (int i = 0; i < 64; i++)
        numbers[i] = i;
    MPI_File file = open_file(name, MPI_MODE_CREATE | MPI_MODE_WRONLY);
    if (rank == 0)
        MUST(MPI_File_write_at(file, 0, numbers, 64, MPI_INT, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    MPI_File_close(&file);
    meet();
}

static void see(const int *places, int count, int extent, int mode)
{
    int found[12], one = 77;
    MPI_Datatype block, tile;
    MPI_Type_create_indexed_block(count, 1, places, MPI_INT, &block);
    MPI_Type_create_resized(block, 0, extent * sizeof(int), &tile);
    MPI_Type_commit(&tile);
    MPI_File file = open_file("numbers.dat", mode);
    MUST(MPI_File_set_view(file, 4 * sizeof(int), MPI_INT, tile, "native", MPI_INFO_NULL) == MPI_SUCCESS);
    memset(found, 0, sizeof found);
    MUST(MPI_File_read_at(file, 1, found, 11, MPI_INT, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    for (int i = 0; i < 11; i++)
        MUST(found[i] == 4 + (i + 1) / count * extent + places[(i + 1) % count]);
    if (mode == MPI_MODE_RDWR)
        CHECK(class_of(MPI_File_write_at(file, 0, &one, 1, MPI_INT, MPI_STATUS_IGNORE)) == MPI_ERR_TYPE);
    MPI_File_close(&file);
    MPI_Type_free(&block);
    MPI_Type_free(&tile);
    meet();
}

static void refuse(const int *places, int count, int mode)
{
    MPI_Datatype tile;
    MPI_Type_create_indexed_block(count, 1, places, MPI_INT, &tile);
    MPI_Type_commit(&tile);
    MPI_File file = open_file("numbers.dat", mode);
    CHECK(class_of(MPI_File_set_view(file, 0, MPI_INT, tile, "native", MPI_INFO_NULL)) == MPI_ERR_TYPE);
    MPI_File_close(&file);
    MPI_Type_free(&tile);
    meet();
}

static void repeated(void)
{
    static const int as_long[] = {0, 1, 1, 3}, longer[] = {0, 0, 1, 1, 2}, falling[] = {1, 0};
    make("numbers.dat");
    see(as_long, 4, 4, MPI_MODE_RDONLY);
    see(as_long, 4, 4, MPI_MODE_RDWR);
    see(longer, 5, 3, MPI_MODE_RDONLY);
    refuse(falling, 2, MPI_MODE_RDONLY);
    refuse(as_long, 4, MPI_MODE_WRONLY);
}

/* Each process begins at the end that the file had before any process wrote to it. */
static void appended(void)
{
    long number = round_;
    for (int i = 0; i < 60; i++) {
        MPI_File file = open_file("appended.dat", MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_APPEND);
        MPI_Offset at, expected = (60 * round_ + i) * (MPI_Offset)sizeof number;
        if (rank == size - 1)
            MUST(MPI_File_write(file, &number, sizeof number, MPI_BYTE, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        MPI_File_get_position(file, &at);
        MUST(at == expected + (rank == size - 1 ? (MPI_Offset)sizeof number : 0));
        MPI_File_get_position_shared(file, &at);
        MUST(at == expected);
        MPI_File_close(&file);
    }
    meet();
}

/* One process makes an error in each ordered collective, and so does not take part. */
static void in_order(void)
{
    int number = 100 * round_ + rank, found = -1, bad = round_ % size;
    MPI_File file = open_file("ordered.dat", MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    int rc = MPI_File_write_ordered(file, &number, rank == bad ? -1 : 1, MPI_INT, MPI_STATUS_IGNORE);
    CHECK(class_of(rc) == (rank == bad ? MPI_ERR_COUNT : MPI_SUCCESS));
    meet();
    MPI_Offset at;
    MPI_File_get_position_shared(file, &at);
    CHECK(at == size - 1);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    rc = MPI_File_read_ordered(file, &found, 1, rank == bad ? MPI_DATATYPE_NULL : MPI_INT, MPI_STATUS_IGNORE);
    CHECK(class_of(rc) == (rank == bad ? MPI_ERR_TYPE : MPI_SUCCESS));
    CHECK(found == (rank == bad ? -1 : number));
    meet();
    rc = MPI_File_write_ordered_begin(file, &number, rank == bad ? -1 : 1, MPI_INT);
    CHECK(class_of(rc) == (rank == bad ? MPI_ERR_COUNT : MPI_SUCCESS));
    meet();
    if (rank != bad)
        MUST(MPI_File_write_ordered_end(file, &number, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    MPI_File_close(&file);
    meet();
}

/*
 * One process makes errors in collectives, and no other process waits for it. The same
 * process removes the file before all processes close it.
 */
static void together(void)
{
    int numbers[3] = {100 * round_ + rank, 0, 7}, bad = round_ % size;
    MPI_Datatype gap;
    MPI_Type_vector(2, 1, 2, MPI_INT, &gap);
    if (rank != bad)
        MPI_Type_commit(&gap);
    MPI_File file = open_file("together.dat", MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    int rc = MPI_File_write_at_all(file, 12 * rank, numbers, 1, gap, MPI_STATUS_IGNORE);
    CHECK((rc == MPI_SUCCESS) == (rank != bad));
    meet();
    rc = MPI_File_write_at_all_begin(file, 12 * rank, numbers, rank == bad ? -1 : 3, MPI_INT);
    CHECK(class_of(rc) == (rank == bad ? MPI_ERR_COUNT : MPI_SUCCESS));
    if (rank != bad)
        MUST(MPI_File_write_at_all_end(file, numbers, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    meet();
    if (rank == bad)
        CHECK(remove("together.dat") == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    MUST(MPI_File_close(&file) == MPI_SUCCESS && file == MPI_FILE_NULL);
    MPI_Type_free(&gap);
    meet();
}

/* The name of the file is so long that no name of a hidden file can be derived from it. */
static void long_name(void)
{
    int found = -1, all;
    char name[241];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    if (round_ == 0)
        make(name);
    MPI_File file = open_file(name, MPI_MODE_RDONLY);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    for (int i = 0; i < 3; i++) {
        MUST(MPI_File_read_shared(file, &found, 1, MPI_INT, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        MPI_Allreduce(&found, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK(all == size * size * i + size * (size - 1) / 2);
        meet();
    }
    MPI_File_close(&file);
    meet();
}

static void content(void)
{
    if (round_ == 0)
        repeated();
    appended();
    in_order();
    together();
    long_name();
}

MAIN(content)
