/*
 * Communicators that are made in many ways, their names, hints and comparison;
 * some live on from round to round.
 */
#include "check.h"

static MPI_Comm kept[4];

static void use(MPI_Comm comm, const char *what)
{
    if (comm == MPI_COMM_NULL) {
        say("%s: null", what);
        return;
    }
    int here, count, sum, result, value = rank + round_, got = -1;
    MPI_Status status;
    MPI_Comm_rank(comm, &here);
    MPI_Comm_size(comm, &count);
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
    MPI_Comm_compare(comm, MPI_COMM_WORLD, &result);
    MPI_Sendrecv(&value, 1, MPI_INT, (here + 1) % count, 3, &got, 1, MPI_INT, MPI_ANY_SOURCE, 3, comm, &status);
    say("%s: %d of %d, sum %d, world is %d, from %d: %d", what, here, count, sum, result, status.MPI_SOURCE, got);
}

static void named(MPI_Comm comm)
{
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = -1;
    MPI_Comm_get_name(comm, name, &length);
    say("name '%s' %d", name, length);
}

static void hints(void)
{
    MPI_Info info, used;
    MPI_Comm comm;
    char value[64] = "";
    int flag = 0;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_allow_overtaking", "true");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    meet();
    MPI_Comm_get_info(comm, &used);
    MPI_Info_get(used, "mpi_assert_allow_overtaking", 63, value, &flag);
    say("hint %d %s", flag, value);
    MPI_Info_free(&used);
    MPI_Info_set(info, "mpi_assert_allow_overtaking", "false");
    MPI_Comm_set_info(comm, info);
    MPI_Info_free(&info);
    meet();
    MPI_Comm_get_info(comm, &used);
    MPI_Info_get(used, "mpi_assert_allow_overtaking", 63, value, &flag);
    say("hint %d %s", flag, value);
    MPI_Info_free(&used);
    use(comm, "with hints");
    MPI_Comm_free(&comm);
}

static void from_groups(void)
{
    MPI_Group world, even, odd;
    MPI_Comm comm, part;
    int ranks[64], count = 0;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int r = size - 1; r >= 0; r--)
        if (r % 2 == 0)
            ranks[count++] = r;
    MPI_Group_incl(world, count, ranks, &even);
    MPI_Group_difference(world, even, &odd);
    MPI_Comm_create(MPI_COMM_WORLD, even, &comm);
    meet();
    use(comm, "create");
    MPI_Comm_create(MPI_COMM_WORLD, rank % 2 ? odd : even, &part);
    meet();
    use(part, "create of parts");
    if (comm != MPI_COMM_NULL)
        MPI_Comm_free(&comm);
    MPI_Comm_free(&part);
    if (rank % 2) {
        MPI_Comm_create_group(MPI_COMM_WORLD, odd, 9, &comm);
        use(comm, "create_group");
        MPI_Comm_free(&comm);
    }
    MPI_Comm_create_group(MPI_COMM_WORLD, world, 10, &comm);
    use(comm, "create_group of all");
    MPI_Comm_disconnect(&comm);
    CHECK(comm == MPI_COMM_NULL);
    MPI_Group_free(&world);
    MPI_Group_free(&even);
    MPI_Group_free(&odd);
}

static void later(void)
{
    MPI_Comm comm, other;
    MPI_Request requests[2];
    int token = 0;
    MPI_Comm_idup(MPI_COMM_WORLD, &comm, &requests[0]);
    MPI_Comm_idup(kept[1], &other, &requests[1]);
    /* MPI_Comm_idup must not block: the neighbour sends before it waits. */
    if (rank % 2 == 0)
        MPI_Send(&token, 1, MPI_INT, rank ^ 1, 4, MPI_COMM_WORLD);
    else
        MPI_Recv(&token, 1, MPI_INT, rank ^ 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    meet();
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    meet();
    use(comm, "idup");
    use(other, "idup of a part");
    MPI_Comm_free(&comm);
    MPI_Comm_free(&other);
}

static void content(void)
{
    MPI_Comm comm, deeper;
    if (round_ == 0) {
        MPI_Comm_dup(MPI_COMM_WORLD, &kept[0]);
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &kept[1]);
        MPI_Comm_dup(kept[1], &kept[2]);
        MPI_Comm_split(MPI_COMM_WORLD, rank == size - 1 ? MPI_UNDEFINED : 0, rank, &kept[3]);
        MPI_Comm_set_name(kept[0], "a duplicate");
        MPI_Comm_set_name(kept[1], "half");
    }
    named(MPI_COMM_WORLD);
    named(MPI_COMM_SELF);
    named(kept[0]);
    named(kept[1]);
    for (int i = 0; i < 4; i++)
        use(kept[i], "kept");
    int result;
    MPI_Comm_compare(kept[1], kept[2], &result);
    CHECK(result == MPI_CONGRUENT);
    MPI_Comm_compare(kept[0], kept[0], &result);
    CHECK(result == MPI_IDENT);
    MPI_Comm_compare(kept[0], kept[1], &result);
    CHECK(result == MPI_UNEQUAL);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -rank, MPI_INFO_NULL, &comm);
    meet();
    use(comm, "shared");
    MPI_Comm_split(comm, round_ % 2 ? rank / 2 : 0, rank, &deeper);
    MPI_Comm_free(&comm);
    meet();
    use(deeper, "deeper");
    MPI_Comm_free(&deeper);
    CHECK(deeper == MPI_COMM_NULL);
    CHECK(MPI_Comm_f2c(MPI_Comm_c2f(kept[0])) == kept[0]);
    CHECK(MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
    CHECK(MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_NULL)) == MPI_COMM_NULL);
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    CHECK(parent == MPI_COMM_NULL);
    from_groups();
    hints();
    later();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    for (int i = 0; i < 4; i++)
        if (kept[i] != MPI_COMM_NULL)
            MPI_Comm_free(&kept[i]);
    MPI_Finalize();
    return 0;
}
