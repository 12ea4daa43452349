/* Sessions beside MPI_Init, and communicators made of groups; a session and a
 * communicator last until the end. */
#include "check.h"

static MPI_Session kept = MPI_SESSION_NULL;
static MPI_Comm kept_comm;
static int called, code;

static void handler(MPI_Session *session, int *error, ...)
{
    called += *session == kept;
    code = *error;
}

static MPI_Group group_of(MPI_Session session, const char *set)
{
    MPI_Group group;
    CHECK(MPI_Group_from_session_pset(session, set, &group) == MPI_SUCCESS);
    return group;
}

static void sets(MPI_Session session)
{
    int count, found = 0;
    MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count);
    for (int n = 0; n < count; n++) {
        char name[MPI_MAX_PSET_NAME_LEN], cut[6];
        int length = 0, room = sizeof cut;
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &length, NULL);
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &room, cut);
        MUST(length > 1 && length <= MPI_MAX_PSET_NAME_LEN);
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &length, name);
        MUST((int)strlen(name) < MPI_MAX_PSET_NAME_LEN && !strncmp(name, cut, sizeof cut - 1));
        found += !strcmp(name, "mpi://WORLD") || !strcmp(name, "mpi://SELF");
    }
    CHECK(found == 2);
    MPI_Info info;
    char value[MPI_MAX_INFO_VAL];
    int flag;
    MPI_Session_get_pset_info(session, "mpi://WORLD", &info);
    MPI_Info_get(info, "mpi_size", sizeof value - 1, value, &flag);
    say("size %s", flag ? value : "?");
    MPI_Info_free(&info);
    CHECK(MPI_Session_get_info(session, &info) == MPI_SUCCESS);
    MPI_Info_free(&info);
}

static void use(MPI_Comm comm, const char *name)
{
    int here, count, sum;
    MPI_Comm_rank(comm, &here);
    MPI_Comm_size(comm, &count);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    say("%s: rank %d of %d, sum %d", name, here, count, sum);
    int to = (here + 1) % count, from = (here + count - 1) % count, came = -1;
    MPI_Sendrecv(&rank, 1, MPI_INT, to, 3, &came, 1, MPI_INT, from, 3, comm, MPI_STATUS_IGNORE);
    say("%s: from %d", name, came);
}

/* Ranks 0 2 4 … and 1 3 5 …, whose second member leads. */
static void halves(MPI_Group world)
{
    int range[2][1][3] = {{{0, size - 1 - (size - 1) % 2, 2}}, {{1, size - 1 - size % 2, 2}}};
    MPI_Group mine, theirs;
    MPI_Group_range_incl(world, 1, range[rank % 2], &mine);
    MPI_Group_range_incl(world, 1, range[(rank + 1) % 2], &theirs);
    MPI_Comm half, inter;
    int leader[2] = {0, 1}, is_inter, remote, got = -1;
    MPI_Comm_create_from_group(mine, "half", MPI_INFO_NULL, MPI_ERRORS_RETURN, &half);
    use(half, "half");
    meet();
    MPI_Intercomm_create_from_groups(mine, leader[rank % 2], theirs, leader[(rank + 1) % 2], "both", MPI_INFO_NULL,
                                     MPI_ERRORS_RETURN, &inter);
    meet();
    MPI_Comm_test_inter(inter, &is_inter);
    MPI_Comm_remote_size(inter, &remote);
    int here;
    MPI_Comm_rank(inter, &here);
    MPI_Sendrecv(&rank, 1, MPI_INT, here, 4, &got, 1, MPI_INT, here, 4, inter, MPI_STATUS_IGNORE);
    say("inter %d, remote %d, from %d", is_inter, remote, got);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
    MPI_Group_free(&mine);
    MPI_Group_free(&theirs);
}

static void errors(void)
{
    int before = called;
    MPI_Session_call_errhandler(kept, MPI_ERR_SIZE);
    CHECK(called == before + 1 && code == MPI_ERR_SIZE);
    MPI_Group none;
    before = called;
    CHECK(MPI_Group_from_session_pset(kept, "mpi://NOBODY", &none) != MPI_SUCCESS);
    CHECK(called == before + 1);
    MPI_Errhandler mine;
    MPI_Session_get_errhandler(kept, &mine);
    MPI_Session_set_errhandler(kept, MPI_ERRORS_RETURN);
    CHECK(MPI_Group_from_session_pset(kept, "mpi://NOBODY", &none) != MPI_SUCCESS);
    CHECK(called == before + 1);
    MPI_Session_set_errhandler(kept, mine);
    MPI_Errhandler_free(&mine);
}

static void content(void)
{
    MPI_Session session;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    CHECK(session != MPI_SESSION_NULL && session != kept);
    sets(session);
    MPI_Group world = group_of(session, "mpi://WORLD"), self = group_of(session, "mpi://SELF");
    int here, count;
    MPI_Group_rank(world, &here);
    MPI_Group_size(self, &count);
    say("rank %d, self %d", here, count);
    meet();
    if (kept == MPI_SESSION_NULL) {
        MPI_Errhandler errhandler;
        MPI_Session_create_errhandler(handler, &errhandler);
        MPI_Session_init(MPI_INFO_NULL, errhandler, &kept);
        MPI_Errhandler_free(&errhandler);
        MPI_Comm_create_from_group(world, "kept", MPI_INFO_NULL, MPI_ERRORS_RETURN, &kept_comm);
    }
    use(kept_comm, "kept");
    halves(world);
    errors();
    MPI_Group_free(&world);
    MPI_Group_free(&self);
    meet();
    MPI_Session_finalize(&session);
    CHECK(session == MPI_SESSION_NULL);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    MPI_Comm_free(&kept_comm);
    MPI_Session_finalize(&kept);
    MPI_Finalize();
    return 0;
}
