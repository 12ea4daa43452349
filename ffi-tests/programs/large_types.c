/* Datatypes made by procedures for large counts (MPI 4.0). Their counts,
 * displacements and extents do not fit in an int. They live over collectives,
 * where the state may be saved; only few data are sent. */
#include "check.h"

#ifdef OPEN_MPI /* Version 5.0 has none of them. */
int main(void)
{
    return 0;
}
#else

#define FAR ((MPI_Count)1 << 33)

enum { TYPES = 12, FEW = 3 };

static MPI_Datatype types[TYPES], base;
static const char *names[TYPES] = {"contiguous", "vector",  "hvector",  "indexed", "hindexed", "indexed block",
                                   "hindexed block", "struct", "resized", "subarray", "darray", "dup"};
static int out[FEW], in[FEW];
static MPI_Request persistent;

/* Datatypes with data: `out`, relative to the begin of the datatype. */
enum { HINDEXED = 4, INDEXED_BLOCK = 5, HINDEXED_BLOCK = 6, STRUCT = 7, RESIZED = 8, SUBARRAY = 9 };
static const struct {
    int type;
    MPI_Count bytes_before;
} sent[] = {{HINDEXED, 8 * FAR},    {INDEXED_BLOCK, 4 * FAR}, {HINDEXED_BLOCK, 8 * FAR},
            {STRUCT, 16 * FAR}, {RESIZED, 0},                 {SUBARRAY, 4 * FAR}};

static const void *from(const int *data, MPI_Count bytes_before)
{
    return (const void *)((intptr_t)data - (intptr_t)bytes_before);
}

static void make(void)
{
    MPI_Count few[2] = {1, FEW - 1}, many[2] = {FAR, 1}, at[2] = {8 * FAR, 8 * FAR + 4}, element[1] = {FAR}, places[2] = {0, FAR + 7};
    MPI_Count sizes[2] = {3, 4 * FAR}, part[2] = {1, FEW}, start[2] = {0, FAR}, in_struct[2] = {16 * FAR, 0}, lengths[2] = {FEW, 0};
    MPI_Count shape[2] = {FAR, 6};
    int ways[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC}, arguments[2] = {MPI_DISTRIBUTE_DFLT_DARG, 2}, grid[2] = {1, 2};
    MPI_Datatype two[2] = {MPI_INT, MPI_DOUBLE};
    MPI_Type_contiguous_c(FAR, MPI_INT, &types[0]);
    MPI_Type_vector_c(2, FAR, 2 * FAR, MPI_INT, &types[1]);
    MPI_Type_create_hvector_c(3, 2, FAR + 8, MPI_INT, &types[2]);
    MPI_Type_indexed_c(2, many, places, MPI_INT, &types[3]);
    MPI_Type_create_hindexed_c(2, few, at, MPI_INT, &types[4]);
    MPI_Type_create_indexed_block_c(1, FEW, element, MPI_INT, &types[5]);
    MPI_Type_create_hindexed_block_c(1, FEW, at, MPI_INT, &types[6]);
    MPI_Type_create_struct_c(2, lengths, in_struct, two, &types[7]);
    MPI_Type_contiguous_c(FEW, MPI_INT, &base);
    MPI_Type_create_resized_c(base, -FAR, 3 * FAR, &types[8]);
    MPI_Type_free(&base); /* types[8], which is made of it, stays valid */
    MPI_Type_create_subarray_c(2, sizes, part, start, MPI_ORDER_C, MPI_INT, &types[9]);
    MPI_Type_create_darray_c(2, rank % 2, 2, shape, ways, arguments, grid, MPI_ORDER_FORTRAN, MPI_CHAR, &types[10]);
    MPI_Type_dup(types[1], &types[11]);
    for (int t = 0; t < TYPES; t++)
        MPI_Type_set_name(types[t], names[t]);
}

static void describe(MPI_Datatype type)
{
    MPI_Count integers, addresses, counts, datatypes, bytes, lower, extent;
    int combiner, length, numbers[16], class;
    MPI_Aint places[4];
    MPI_Count large[16];
    MPI_Datatype of[4];
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Type_get_name(type, name, &length);
    MPI_Type_size_c(type, &bytes);
    MPI_Type_get_extent_c(type, &lower, &extent);
    say("%s: %lld bytes, extent %lld %lld", name, (long long)bytes, (long long)lower, (long long)extent);
    MPI_Type_get_true_extent_c(type, &lower, &extent);
    say("true extent %lld %lld", (long long)lower, (long long)extent);
    MPI_Type_get_envelope_c(type, &integers, &addresses, &counts, &datatypes, &combiner);
    say("combiner %d: %lld %lld %lld %lld", combiner, (long long)integers, (long long)addresses, (long long)counts, (long long)datatypes);
    MPI_Type_get_contents_c(type, integers, addresses, counts, datatypes, numbers, places, large, of);
    for (int i = 0; i < integers; i++)
        say("integer %d", numbers[i]);
    for (int i = 0; i < counts; i++)
        say("count %lld", (long long)large[i]);
    for (int i = 0; i < datatypes; i++) {
        MPI_Type_size_c(of[i], &bytes);
        say("of %lld bytes, is an int: %d", (long long)bytes, of[i] == MPI_INT);
        if (of[i] != MPI_INT && of[i] != MPI_DOUBLE && of[i] != MPI_CHAR)
            MPI_Type_free(&of[i]);
    }
    /* Procedures with int counts do not return these counts. */
    int few[3];
    MPI_Error_class(MPI_Type_get_envelope(type, &few[0], &few[1], &few[2], &combiner), &class);
    CHECK(class == (counts == 0 ? MPI_SUCCESS : MPI_ERR_TYPE));
    if (counts > 0)
        CHECK(MPI_Type_get_contents(type, 16, 4, 4, numbers, places, of) != MPI_SUCCESS);
}

static void messages(void)
{
    int left = (rank + size - 1) % size, right = (rank + 1) % size, number = sizeof sent / sizeof *sent;
    for (int s = 0; s < number; s++) {
        MPI_Datatype type = types[sent[s].type];
        MPI_Request request;
        MPI_Status status;
        MPI_Count count;
        for (int i = 0; i < FEW; i++)
            out[i] = 1000 * round_ + 100 * rank + 10 * s + i;
        memset(in, 0, sizeof in);
        MPI_Isend(from(out, sent[s].bytes_before), 1, type, right, s, MPI_COMM_WORLD, &request);
        meet(); /* the message and the datatype are saved */
        /* Every second message is received with the datatype of its send. */
        if (s % 2 == 0)
            MPI_Recv_c((void *)from(in, sent[s].bytes_before), 1, type, left, s, MPI_COMM_WORLD, &status);
        else
            MPI_Recv(in, FEW, MPI_INT, left, s, MPI_COMM_WORLD, &status);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Get_count_c(&status, s % 2 == 0 ? type : MPI_INT, &count);
        say("%s: %lld of them, %d %d %d", names[sent[s].type], (long long)count, in[0], in[1], in[2]);
        CHECK(in[FEW - 1] == 1000 * round_ + 100 * left + 10 * s + FEW - 1);
    }
    MPI_Start(&persistent);
    meet();
    MPI_Recv(in, FEW, MPI_INT, left, 40, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&persistent, MPI_STATUS_IGNORE);
    say("persistent %d", in[2]);
}

/* A view of a file whose array is larger than any file. */
static void views(void)
{
    MPI_Count sizes[1] = {4 * FAR}, part[1] = {FEW}, start[1] = {1000 + 10 * rank};
    MPI_Datatype view;
    MPI_File file;
    int again[FEW] = {0};
    MPI_Type_create_subarray_c(1, sizes, part, start, MPI_ORDER_C, MPI_INT, &view);
    MPI_Type_commit(&view);
    MPI_File_open(MPI_COMM_WORLD, "large_types.dat", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_set_view(file, 0, MPI_INT, view, "native", MPI_INFO_NULL);
    MPI_Type_free(&view);
    for (int i = 0; i < FEW; i++)
        out[i] = 7 * round_ + 100 * rank + i;
    CHECK(MPI_File_write_at(file, 0, out, FEW, MPI_INT, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    meet(); /* view and file are saved */
    CHECK(MPI_File_read_at(file, 0, again, FEW, MPI_INT, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(memcmp(again, out, sizeof out) == 0);
    MPI_File_close(&file);
}

static void errors(void)
{
    MPI_Datatype type;
    int class;
    MPI_Error_class(MPI_Type_contiguous_c(-FAR, MPI_INT, &type), &class);
    say("negative: class %s", class == MPI_ERR_ARG || class == MPI_ERR_COUNT ? "of an argument" : "other");
    CHECK(MPI_Type_vector_c(1, 1, 1, MPI_DATATYPE_NULL, &type) != MPI_SUCCESS);
}

static void content(void)
{
    if (round_ == 0) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        make();
        for (size_t s = 0; s < sizeof sent / sizeof *sent; s++)
            MPI_Type_commit(&types[sent[s].type]);
        MPI_Send_init(from(out, 16 * FAR), 1, types[STRUCT], (rank + 1) % size, 40, MPI_COMM_WORLD, &persistent);
    }
    meet();
    for (int t = 0; t < TYPES; t++)
        describe(types[t]);
    messages();
    views();
    errors();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    MPI_Request_free(&persistent);
    for (int t = 0; t < TYPES; t++)
        MPI_Type_free(&types[t]);
    MPI_Finalize();
    return 0;
}
#endif
