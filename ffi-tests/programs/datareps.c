/*
 * Files in representations of the program's own (MPI 4.1, 14.5.3): big-endian integers under a mask, in 8 bytes each, and halves
 * in 3 bytes. What is in the files is compared with what the functions say, so that nobody else need support them.
 *
 * Argument 3: the one that writes most is registered in this round; before that, others do.
 */
#include "check.h"

enum { PIECES = 6, MANY = 24, INT_BYTES = 8, SHORT_BYTES = 3 };

/* What the functions get: how often they have been called is part of the program's state. */
struct state {
    unsigned mask;
    int reads, writes, extents, fails;
};
static struct state early = {.mask = 0x5a}, late = {.mask = 0xc3}, broken = {.mask = 1}, plain;
static int late_round;

static int class_of(int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

static int extent(MPI_Datatype type, MPI_Aint *bytes, void *extra)
{
    struct state *state = extra;
    state->extents++;
    *bytes = type == MPI_INT ? INT_BYTES : type == MPI_SHORT ? SHORT_BYTES : 1;
    return type == MPI_INT || type == MPI_SHORT || type == MPI_BYTE ? MPI_SUCCESS : MPI_ERR_TYPE;
}

static int same_extent(MPI_Datatype type, MPI_Aint *bytes, void *extra)
{
    (void)extra;
    *bytes = type == MPI_INT ? 4 : 1;
    return MPI_SUCCESS;
}

static void put(unsigned char *at, long long value, int bytes, unsigned mask)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)((value >> 8 * (bytes - 1 - i)) ^ mask);
}

static long long get(const unsigned char *at, int bytes, unsigned mask)
{
    long long value = (signed char)(at[0] ^ mask);
    for (int i = 1; i < bytes; i++)
        value = value * 256 + (at[i] ^ (unsigned char)mask);
    return value;
}

/* The types in memory that the program uses: integers, every second integer of six, and an integer with two shorts. */
static MPI_Datatype spaced, mixed;
struct mix { int whole; short halves[2]; };

static void *item(void *user, MPI_Datatype type, long long at, int *is_short)
{
    *is_short = 0;
    if (type == MPI_INT)
        return (int *)user + at;
    if (type == spaced)
        return (int *)user + at / 3 * 6 + at % 3 * 2;
    struct mix *mix = (struct mix *)user + at / 3;
    *is_short = at % 3 != 0;
    return *is_short ? (void *)&mix->halves[at % 3 - 1] : (void *)&mix->whole;
}

static int convert(void *user, MPI_Datatype type, long long count, unsigned char *file, MPI_Offset position, struct state *state,
                   int is_read)
{
    if (state->fails || (type != MPI_INT && type != spaced && type != mixed))
        return MPI_ERR_OTHER;
    for (long long i = 0; i < count; i++) {
        int is_short, bytes;
        void *at = item(user, type, position + i, &is_short);
        bytes = is_short ? SHORT_BYTES : INT_BYTES;
        if (is_read && is_short)
            *(short *)at = (short)get(file, bytes, state->mask);
        else if (is_read)
            *(int *)at = (int)get(file, bytes, state->mask);
        else
            put(file, is_short ? *(short *)at : *(int *)at, bytes, state->mask);
        file += bytes;
    }
    return MPI_SUCCESS;
}

static int reads(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position, void *extra)
{
    ((struct state *)extra)->reads++;
    return convert(user, type, count, file, position, extra, 1);
}

static int writes(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position, void *extra)
{
    ((struct state *)extra)->writes++;
    return convert(user, type, count, file, position, extra, 0);
}

/* The bytes of the file are those of the value. */
static int holds(const char *name, MPI_Offset at, long long value, int bytes, unsigned mask)
{
    unsigned char expected[8], found[8];
    FILE *file = fopen(name, "r");
    put(expected, value, bytes, mask);
    int fine = file && fseek(file, at, SEEK_SET) == 0 && fread(found, bytes, 1, file) == 1 && memcmp(found, expected, bytes) == 0;
    if (file)
        fclose(file);
    return fine;
}

static int value(int who, int i)
{
    return (round_ + 1) * 100000 * (i % 2 ? -1 : 1) + who * 1000 + i;
}

/* Everybody's third integer of a row, by a filetype that is scaled: collectively, then the neighbour's. */
static void rows(const char *name, const char *representation, struct state *state)
{
    int mine[MANY], theirs[MANY], count;
    MPI_File file;
    MPI_Datatype tile, row;
    MPI_Status status;
    MPI_Aint bytes;
    int sizes[1] = {size * 3}, part[1] = {3}, start[1] = {rank * 3};
    for (int i = 0; i < MANY; i++)
        mine[i] = value(rank, i);
    MUST(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) == MPI_SUCCESS);
    MPI_Type_create_subarray(1, sizes, part, start, MPI_ORDER_C, MPI_INT, &tile);
    MPI_Type_commit(&tile);
    CHECK(MPI_File_set_view(file, 16, MPI_INT, tile, representation, MPI_INFO_NULL) == MPI_SUCCESS);
    meet();
    MPI_File_get_type_extent(file, MPI_INT, &bytes);
    CHECK(bytes == INT_BYTES);
    MPI_File_get_type_extent(file, tile, &bytes);
    CHECK(bytes == INT_BYTES * 3 * size);
    CHECK(MPI_File_write_at_all(file, 0, mine, MANY / 2, MPI_INT, &status) == MPI_SUCCESS);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == MANY / 2);
    meet();
    MPI_File_seek(file, MANY / 2, MPI_SEEK_SET);
    CHECK(MPI_File_write_all(file, mine + MANY / 2, MANY / 2, MPI_INT, &status) == MPI_SUCCESS);
    MPI_File_sync(file);
    meet();
    int wrong = 0;
    for (int i = 0; i < MANY; i++)
        wrong += !holds(name, 16 + INT_BYTES * (i / 3 * 3 * size + rank * 3 + i % 3), mine[i], INT_BYTES, state->mask);
    CHECK(wrong == 0);
    start[0] = (rank + 1) % size * 3;
    MPI_Type_create_subarray(1, sizes, part, start, MPI_ORDER_C, MPI_INT, &row);
    MPI_Type_commit(&row);
    MPI_File_set_view(file, 16, MPI_INT, row, representation, MPI_INFO_NULL);
    MPI_Type_free(&row);
    MPI_Type_free(&tile);
    memset(theirs, 0, sizeof theirs);
    CHECK(MPI_File_read_all(file, theirs, MANY, MPI_INT, &status) == MPI_SUCCESS);
    MPI_Get_count(&status, MPI_INT, &count);
    for (int i = 0; i < MANY; i++)
        wrong += theirs[i] != value((rank + 1) % size, i);
    CHECK(wrong == 0 && count == MANY);
    meet();
    MPI_File_close(&file);
}

/* One file each: memory with gaps, structures, whatever does not block, and the end of the file. */
static void alone(const char *representation, struct state *state)
{
    char name[32];
    int from[6 * PIECES], to[6 * PIECES], count, wrong = 0;
    struct mix mixes[PIECES], back[PIECES];
    MPI_File file;
    MPI_Request requests[2];
    MPI_Status statuses[2], status;
    MPI_Offset bytes, at;
    MPI_Datatype record;
    MPI_Datatype kinds[2] = {MPI_INT, MPI_SHORT};
    int lengths[2] = {1, 2};
    MPI_Aint places[2] = {0, INT_BYTES};
    snprintf(name, sizeof name, "own.%d", rank);
    for (int i = 0; i < 6 * PIECES; i++)
        from[i] = value(rank, i);
    for (int i = 0; i < PIECES; i++)
        mixes[i] = (struct mix){value(rank, i), {(short)(round_ - i), (short)(rank * 100 + i)}};
    memset(to, 0, sizeof to);
    memset(back, 0, sizeof back);
    MUST(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) == MPI_SUCCESS);
    MPI_File_set_size(file, 0);
    CHECK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, representation, MPI_INFO_NULL) == MPI_SUCCESS);
    CHECK(MPI_File_write(file, from, PIECES, spaced, &status) == MPI_SUCCESS);
    MPI_Get_count(&status, spaced, &count);
    MPI_File_get_position(file, &at);
    MPI_File_get_size(file, &bytes);
    CHECK(count == PIECES && at == 3 * PIECES && bytes == 3 * PIECES * INT_BYTES);
    meet();
    CHECK(MPI_File_iread_at(file, 0, to, PIECES, spaced, &requests[0]) == MPI_SUCCESS);
    CHECK(MPI_File_iwrite_at(file, 3 * PIECES, from, 5, MPI_INT, &requests[1]) == MPI_SUCCESS);
    meet();
    MPI_Waitall(2, requests, statuses);
    MPI_Get_count(&statuses[0], spaced, &count);
    for (int i = 0; i < 6 * PIECES; i++)
        wrong += to[i] != (i % 2 ? 0 : from[i]);
    CHECK(wrong == 0 && count == PIECES);
    /* Seven are asked for, two are there. */
    memset(to, 0, sizeof to);
    MPI_File_read_at(file, 3 * PIECES + 3, to, 7, MPI_INT, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 2 && to[0] == from[3] && to[1] == from[4] && to[2] == 0);
    meet();
    /* Structures, whose places in the file are said in bytes of the file. */
    MPI_Type_create_struct(2, lengths, places, kinds, &record);
    MPI_Type_commit(&record);
    CHECK(MPI_File_set_view(file, 1000, record, record, representation, MPI_INFO_NULL) == MPI_SUCCESS);
    MPI_Type_free(&record);
    CHECK(MPI_File_write_at(file, 1, mixes, PIECES, mixed, &status) == MPI_SUCCESS);
    meet();
    int step = INT_BYTES + 2 * SHORT_BYTES;
    CHECK(holds(name, 1000 + 3 * step, mixes[2].whole, INT_BYTES, state->mask));
    CHECK(holds(name, 1000 + 3 * step + INT_BYTES + SHORT_BYTES, mixes[2].halves[1], SHORT_BYTES, state->mask));
    CHECK(MPI_File_read_at(file, 1, back, PIECES, mixed, &status) == MPI_SUCCESS);
    MPI_Get_count(&status, mixed, &count);
    CHECK(count == PIECES && memcmp(back, mixes, sizeof back) == 0);
    char found[MPI_MAX_DATAREP_STRING];
    MPI_Datatype etype, filetype;
    MPI_File_get_view(file, &at, &etype, &filetype, found);
    CHECK(strcmp(found, representation) == 0 && at == 1000);
    MPI_Type_free(&etype);
    MPI_Type_free(&filetype);
    meet();
    MPI_File_close(&file);
}

static void errors(void)
{
    MPI_File file;
    int number = round_, code;
    char name[MPI_MAX_DATAREP_STRING + 2];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    CHECK(class_of(MPI_Register_datarep(name, reads, writes, extent, &early)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Register_datarep("early", reads, writes, extent, &early)) == MPI_ERR_DUP_DATAREP);
    CHECK(class_of(MPI_Register_datarep("native", reads, writes, extent, &early)) == MPI_ERR_DUP_DATAREP);
    MUST(MPI_File_open(MPI_COMM_SELF, "/dev/null", MPI_MODE_RDWR, MPI_INFO_NULL, &file) == MPI_SUCCESS);
    code = MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "unheard-of", MPI_INFO_NULL);
    CHECK(class_of(code) == MPI_ERR_UNSUPPORTED_DATAREP);
    /* Known from the round in which it is registered on. */
    code = MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "late", MPI_INFO_NULL);
    CHECK(class_of(code) == (round_ < late_round ? MPI_ERR_UNSUPPORTED_DATAREP : MPI_SUCCESS));
    meet();
    MUST(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "broken", MPI_INFO_NULL) == MPI_SUCCESS);
    broken.fails = 1;
    CHECK(class_of(MPI_File_write_at(file, 0, &number, 1, MPI_INT, MPI_STATUS_IGNORE)) == MPI_ERR_CONVERSION);
    broken.fails = 0;
    CHECK(class_of(MPI_File_set_view(file, 0, MPI_DOUBLE, MPI_DOUBLE, "broken", MPI_INFO_NULL)) == MPI_ERR_CONVERSION);
    MPI_File_close(&file);
    MUST(MPI_File_open(MPI_COMM_WORLD, "plain.dat", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) == MPI_SUCCESS);
    MUST(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "plain", MPI_INFO_NULL) == MPI_SUCCESS);
    MPI_File_write_at(file, rank, &number, 1, MPI_INT, MPI_STATUS_IGNORE);
    number = -1;
    MPI_File_read_at(file, rank, &number, 1, MPI_INT, MPI_STATUS_IGNORE);
    CHECK(number == round_);
    MPI_File_close(&file);
    meet();
}

static void content(void)
{
    if (round_ == late_round)
        CHECK(MPI_Register_datarep("late", reads, writes, extent, &late) == MPI_SUCCESS);
    meet();
    rows("early.dat", "early", &early);
    if (round_ >= late_round)
        rows("late.dat", "late", &late);
    alone(round_ >= late_round ? "late" : "early", round_ >= late_round ? &late : &early);
    errors();
    say("early: %d %d %d, late: %d %d %d", early.reads, early.writes, early.extents, late.reads, late.writes, late.extents);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    late_round = argc > 3 ? atoi(argv[3]) : 4;
    MPI_Datatype every, kinds[2] = {MPI_INT, MPI_SHORT};
    int lengths[2] = {1, 2};
    MPI_Aint places[2] = {0, 4};
    MPI_Type_vector(3, 1, 2, MPI_INT, &every);
    MPI_Type_create_resized(every, 0, 6 * sizeof(int), &spaced);
    MPI_Type_free(&every);
    MPI_Type_commit(&spaced);
    MPI_Type_create_struct(2, lengths, places, kinds, &mixed);
    MPI_Type_commit(&mixed);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    if (MPI_Register_datarep("early", reads, writes, extent, &early) != MPI_SUCCESS)
        printf("FAILED to register\n");
    MPI_Register_datarep("broken", reads, writes, extent, &broken);
    MPI_Register_datarep("plain", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, same_extent, &plain);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
