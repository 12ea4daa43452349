/*
 * Wrong groups and leaders of MPI_Intercomm_create_from_groups: every member of a group
 * gets an equal error.
 *
 * Only the leader of a group uses the other group (MPI 4.1, 7.6.2).
 */
#include "check.h"

static MPI_Group mine, theirs;

static int class_of(MPI_Group local, int local_leader, MPI_Group remote, int remote_leader)
{
    MPI_Comm inter = MPI_COMM_NULL;
    int class = MPI_SUCCESS;
    int code = MPI_Intercomm_create_from_groups(local, local_leader, remote, remote_leader, "leaders", MPI_INFO_NULL,
                                                MPI_ERRORS_RETURN, &inter);
    MPI_Error_class(code, &class);
    if (inter != MPI_COMM_NULL)
        MPI_Comm_free(&inter);
    return class;
}

static void content(void)
{
    CHECK(class_of(mine, 99, theirs, 0) == MPI_ERR_RANK);
    CHECK(class_of(mine, -1, theirs, 0) == MPI_ERR_RANK);
    CHECK(class_of(theirs, 0, mine, 0) == MPI_ERR_GROUP);
    CHECK(class_of(MPI_GROUP_NULL, 0, theirs, 0) == MPI_ERR_GROUP);
    meet();
    CHECK(class_of(mine, 0, theirs, 99) == MPI_ERR_RANK);
    CHECK(class_of(mine, 1, theirs, -1) == MPI_ERR_RANK);
    CHECK(class_of(mine, 0, MPI_GROUP_EMPTY, 0) == MPI_ERR_RANK);
    CHECK(class_of(mine, 0, mine, 0) == MPI_ERR_GROUP);
    CHECK(class_of(mine, 0, MPI_GROUP_NULL, 0) == MPI_ERR_GROUP);
    meet();
    CHECK(class_of(mine, 0, theirs, 0) == MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int range[2][1][3] = {{{0, size - 1 - (size - 1) % 2, 2}}, {{1, size - 1 - size % 2, 2}}};
    MPI_Group world;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_range_incl(world, 1, range[rank % 2], &mine);
    MPI_Group_range_incl(world, 1, range[(rank + 1) % 2], &theirs);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
