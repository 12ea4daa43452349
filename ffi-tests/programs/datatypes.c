/*
 * Datatypes of nearly all constructors: layout, contents, use in messages and
 * packing. All live on from round to round.
 */
#include "check.h"
#include <stddef.h>

enum { TYPES = 18, ROOM = 4096 };

struct record {
    char tag;
    double value;
    int numbers[3];
};

static MPI_Datatype types[TYPES];
static const char *names[TYPES];
static int count;

static void add(const char *name, MPI_Datatype type)
{
    MPI_Type_commit(&type);
    names[count] = name;
    types[count++] = type;
}

static void make(void)
{
    MPI_Datatype type, inner;
    int lengths[3] = {2, 1, 3}, at[3] = {5, 0, 9};
    MPI_Aint bytes[3] = {40, 0, 100};
    count = 0;
    MPI_Type_contiguous(3, MPI_INT, &type);
    add("contiguous", type);
    MPI_Type_vector(3, 2, 4, MPI_SHORT, &type);
    add("vector", type);
    MPI_Type_create_hvector(2, 3, 40, MPI_INT, &type);
    add("hvector", type);
    MPI_Type_indexed(3, lengths, at, MPI_INT, &type);
    add("indexed", type);
    MPI_Type_create_hindexed(3, lengths, bytes, MPI_FLOAT, &type);
    add("hindexed", type);
    MPI_Type_create_indexed_block(3, 2, at, MPI_CHAR, &type);
    add("indexed_block", type);
    MPI_Type_create_hindexed_block(3, 1, bytes, MPI_DOUBLE, &type);
    add("hindexed_block", type);
    MPI_Datatype members[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
    int ones[3] = {1, 1, 3};
    MPI_Aint offsets[3] = {offsetof(struct record, tag), offsetof(struct record, value), offsetof(struct record, numbers)};
    MPI_Type_create_struct(3, ones, offsets, members, &type);
    add("struct", type);
    MPI_Type_create_resized(type, 0, sizeof(struct record), &type);
    add("resized", type);
    int sizes[2] = {6, 8}, subsizes[2] = {3, 4}, starts[2] = {1, 2};
    MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type);
    add("subarray", type);
    MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_FORTRAN, MPI_INT, &type);
    add("subarray, Fortran", type);
    int distribution[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC}, argument[2] = {MPI_DISTRIBUTE_DFLT_DARG, 2};
    int processes[2] = {2, 2};
    MPI_Type_create_darray(4, 1, 2, sizes, distribution, argument, processes, MPI_ORDER_C, MPI_INT, &type);
    add("darray", type);
    MPI_Type_dup(types[3], &type);
    add("dup", type);
    /* of types that are freed at once */
    MPI_Type_vector(2, 1, 2, MPI_INT, &inner);
    MPI_Type_contiguous(2, inner, &type);
    MPI_Type_free(&inner);
    inner = type;
    MPI_Type_create_resized(inner, -4, 48, &type);
    MPI_Type_free(&inner);
    add("nested", type);
    MPI_Type_contiguous(2, types[8], &type);
    add("two records", type);
    MPI_Datatype pair[2] = {types[1], types[13]};
    MPI_Aint apart[2] = {0, 200};
    int one_two[2] = {1, 2};
    MPI_Type_create_struct(2, one_two, apart, pair, &type);
    add("struct of derived", type);
    MPI_Type_create_f90_real(6, 30, &type);
    names[count] = "f90 real";
    types[count++] = type;
    MPI_Type_contiguous(0, MPI_INT, &type);
    add("empty", type);
    MPI_Type_set_name(types[0], "triple");
}

static void contents(MPI_Datatype type, int depth)
{
    int integers, addresses, contained, combiner;
    MPI_Type_get_envelope(type, &integers, &addresses, &contained, &combiner);
    if (combiner == MPI_COMBINER_NAMED)
        return;
    int i[64];
    MPI_Aint a[16];
    MPI_Datatype d[16];
    /* Open MPI 5.0 accesses as many datatypes as the arrays have room for. */
    MPI_Type_get_contents(type, integers, addresses, contained, i, a, d);
    long long sum = 0;
    for (int k = 0; k < integers; k++)
        sum = sum * 31 + i[k];
    for (int k = 0; k < addresses; k++)
        sum = sum * 31 + a[k];
    say("%*scombiner %d: %d %d %d: %lld", 2 * depth, "", combiner, integers, addresses, contained, sum);
    for (int k = 0; k < contained; k++) {
        contents(d[k], depth + 1);
        int n1, n2, n3, named;
        MPI_Type_get_envelope(d[k], &n1, &n2, &n3, &named);
        if (named != MPI_COMBINER_NAMED && named != MPI_COMBINER_F90_REAL)
            MPI_Type_free(&d[k]);
    }
}

static void describe(int k)
{
    int bytes, length;
    MPI_Aint lower, extent, true_lower, true_extent;
    MPI_Count big;
    char name[MPI_MAX_OBJECT_NAME] = "";
    MPI_Type_size(types[k], &bytes);
    MPI_Type_size_x(types[k], &big);
    MPI_Type_get_extent(types[k], &lower, &extent);
    MPI_Type_get_true_extent(types[k], &true_lower, &true_extent);
    MPI_Type_get_name(types[k], name, &length);
    say("%s: size %d %lld, extent %ld %ld, true %ld %ld, name '%s'", names[k], bytes, (long long)big, (long)lower,
        (long)extent, (long)true_lower, (long)true_extent, name);
    CHECK(MPI_Type_f2c(MPI_Type_c2f(types[k])) == types[k]);
}

static unsigned hash(const unsigned char *data, int length)
{
    unsigned sum = 0;
    for (int i = 0; i < length; i++)
        sum = 31 * sum + data[i];
    return sum;
}

static unsigned char space_out[ROOM], space_in[ROOM];

/* Displacements may be negative. */
#define OUT (space_out + 512)
#define IN (space_in + 512)

static void transfer(int k)
{
    MPI_Request request;
    MPI_Status status;
    int right = (rank + 1) % size, left = (rank + size - 1) % size, elements, whole, bytes, position = 0, size_packed;
    for (int i = 0; i < ROOM; i++)
        space_out[i] = (unsigned char)(i * 7 + rank + round_ + k);
    memset(space_in, 0, ROOM);
    MPI_Irecv(IN, 2, types[k], left, k, MPI_COMM_WORLD, &request);
    meet();
    MPI_Send(OUT, 2, types[k], right, k, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    MPI_Get_count(&status, types[k], &whole);
    MPI_Get_elements(&status, types[k], &elements);
    say("%s: %d, elements %d, bytes %x", names[k], whole, elements, hash(space_in, ROOM));
    /* Received as bytes: sent before the receive, and for some types before a collective. */
    MPI_Type_size(types[k], &bytes);
    MPI_Isend(OUT, 2, types[k], right, 100 + k, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (k % 4 == 0)
        meet();
    unsigned char plain[ROOM];
    memset(plain, 0, ROOM);
    MPI_Recv(plain, ROOM, MPI_PACKED, left, 100 + k, MPI_COMM_WORLD, &status);
    MPI_Pack_size(2, types[k], MPI_COMM_WORLD, &size_packed);
    memset(space_in, 0, ROOM);
    MPI_Unpack(plain, 2 * bytes, &position, IN, 2, types[k], MPI_COMM_WORLD);
    say("unpacked %d of %d: %x", position, size_packed, hash(space_in, ROOM));
    unsigned char packed[ROOM];
    memset(packed, 0, ROOM);
    position = 0;
    MPI_Pack(OUT, 2, types[k], packed, ROOM, &position, MPI_COMM_WORLD);
    say("packed %d: %x", position, hash(packed, position));
    MPI_Aint far = 0, needed = 0;
    MPI_Pack_external_size("external32", 1, types[k], &needed);
    MPI_Pack_external("external32", OUT, 1, types[k], packed, ROOM, &far);
    say("external %ld of %ld: %x", (long)far, (long)needed, hash(packed, (int)far));
    far = 0;
    memset(space_in, 0, ROOM);
    MPI_Unpack_external("external32", packed, needed, &far, IN, 1, types[k]);
    say("external back: %x", hash(space_in, ROOM));
}

static void content(void)
{
    if (round_ == 0)
        make();
    for (int k = 0; k < count; k++) {
        describe(k);
        contents(types[k], 0);
        transfer(k);
    }
    MPI_Datatype type;
    MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &type);
    CHECK(type == MPI_DOUBLE || type == MPI_DOUBLE_PRECISION || type == MPI_REAL8);
    MPI_Type_create_f90_real(6, 30, &type);
    CHECK(type == types[16]);
#if MPI_VERSION > 4 || MPI_VERSION == 4 && MPI_SUBVERSION >= 1
    MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &type);
    CHECK(type == MPI_DOUBLE_INT);
    MPI_Type_get_value_index(MPI_INT, MPI_INT, &type);
    CHECK(type == MPI_2INT);
    MPI_Type_get_value_index(MPI_CHAR, MPI_INT, &type);
    CHECK(type == MPI_DATATYPE_NULL);
#endif
    struct record records[2];
    MPI_Aint first, second;
    MPI_Get_address(&records[0], &first);
    MPI_Get_address(&records[1], &second);
    CHECK(MPI_Aint_diff(second, first) == sizeof(struct record) && MPI_Aint_add(first, sizeof(struct record)) == second);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    for (int k = 0; k < count; k++)
        if (k != 16)
            MPI_Type_free(&types[k]);
    MPI_Finalize();
    return 0;
}
