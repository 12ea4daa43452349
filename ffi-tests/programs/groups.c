/* Groups: made, combined, compared; some live on from round to round. */
#include "check.h"

static MPI_Group kept[3];

static void show(const char *what, MPI_Group group)
{
    int count, here, ranks[64], translated[64];
    char line[256] = "";
    MPI_Group world;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_size(group, &count);
    MPI_Group_rank(group, &here);
    for (int i = 0; i < count; i++)
        ranks[i] = i;
    MPI_Group_translate_ranks(group, count, ranks, world, translated);
    for (int i = 0; i < count; i++)
        sprintf(line + strlen(line), " %d", translated[i]);
    say("%s: rank %d of %d:%s", what, here, count, line);
    MPI_Group_free(&world);
}

static void content(void)
{
    MPI_Group world, group, other, both;
    int ranks[64], result, translated[64];
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    if (round_ == 0) {
        for (int i = 0; i < size; i++)
            ranks[i] = size - 1 - i;
        MPI_Group_incl(world, size, ranks, &kept[0]);
        MPI_Group_excl(world, 1, ranks, &kept[1]);
        MPI_Group_incl(world, 1, &rank, &kept[2]);
    }
    for (int i = 0; i < 3; i++)
        show("kept", kept[i]);
    MPI_Group_union(kept[1], kept[0], &group);
    show("union", group);
    MPI_Group_compare(group, world, &result);
    CHECK(result == MPI_IDENT);
    MPI_Group_compare(kept[0], world, &result);
    CHECK(result == MPI_SIMILAR);
    meet();
    MPI_Group_intersection(kept[0], kept[1], &other);
    show("intersection", other);
    MPI_Group_difference(kept[0], kept[1], &both);
    meet();
    show("difference", both);
    MPI_Group_free(&both);
    CHECK(both == MPI_GROUP_NULL);
    MPI_Group_difference(kept[0], world, &both);
    CHECK(both == MPI_GROUP_EMPTY);
    MPI_Group_free(&both);
    int ranges[2][3] = {{size - 1, 1, -2}, {0, 0, 1}};
    MPI_Group_range_incl(world, 2, ranges, &both);
    show("range", both);
    MPI_Group_free(&both);
    MPI_Group_range_excl(world, 2, ranges, &both);
    show("range excluded", both);
    for (int i = 0; i < size; i++)
        ranks[i] = i;
    MPI_Group_translate_ranks(kept[0], size, ranks, kept[1], translated);
    say("translated %d %d", translated[0], translated[1]);
    CHECK(MPI_Group_f2c(MPI_Group_c2f(group)) == group);
    CHECK(MPI_Group_f2c(MPI_Group_c2f(MPI_GROUP_EMPTY)) == MPI_GROUP_EMPTY);
    MPI_Comm comm;
    MPI_Comm_create(MPI_COMM_WORLD, kept[0], &comm);
    MPI_Group_free(&group);
    meet();
    MPI_Comm_group(comm, &group);
    show("reversed", group);
    MPI_Group_compare(group, kept[0], &result);
    CHECK(result == MPI_IDENT);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Group_free(&other);
    MPI_Group_free(&both);
    MPI_Group_free(&world);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    for (int i = 0; i < 3; i++)
        MPI_Group_free(&kept[i]);
    MPI_Finalize();
    return 0;
}
