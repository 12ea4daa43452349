/*
 * Intercommunicators: made, used, duplicated and merged; one lives on from
 * round to round.
 */
#include "check.h"

static MPI_Comm kept_local = MPI_COMM_NULL, kept;

static void make(MPI_Comm *local, MPI_Comm *inter)
{
    /* Two groups of different sizes: 0 | 1 2 3 … */
    int first = rank == 0;
    MPI_Comm_split(MPI_COMM_WORLD, first, rank, local);
    MPI_Intercomm_create(*local, 0, MPI_COMM_WORLD, first ? 1 : 0, 77, inter);
}

static void describe(MPI_Comm inter)
{
    int flag, local, remote, here, result;
    MPI_Group mine, theirs;
    MPI_Comm_test_inter(inter, &flag);
    MPI_Comm_size(inter, &local);
    MPI_Comm_remote_size(inter, &remote);
    MPI_Comm_rank(inter, &here);
    MPI_Comm_group(inter, &mine);
    MPI_Comm_remote_group(inter, &theirs);
    MPI_Group_compare(mine, theirs, &result);
    say("inter %d: rank %d of %d, remote %d, groups %s", flag, here, local, remote,
        result == MPI_UNEQUAL ? "differ" : "the same");
    MPI_Group_free(&mine);
    MPI_Group_free(&theirs);
}

static void messages(MPI_Comm inter)
{
    int here, remote;
    MPI_Comm_rank(inter, &here);
    MPI_Comm_remote_size(inter, &remote);
    MPI_Request requests[64];
    MPI_Status status;
    int out[64], in[64];
    for (int r = 0; r < remote; r++) {
        out[r] = 1000 * round_ + 10 * rank + r;
        MPI_Send(&out[r], 1, MPI_INT, r, 5, inter);
    }
    meet();
    for (int r = 0; r < remote; r++)
        MPI_Irecv(&in[r], 1, MPI_INT, r, 6, inter, &requests[r]);
    for (int r = 0; r < remote; r++) {
        MPI_Recv(&in[32 + r], 1, MPI_INT, MPI_ANY_SOURCE, 5, inter, &status);
        int first = rank == 0;
        int sender = first ? status.MPI_SOURCE + 1 : 0;
        MUST(in[32 + r] == 1000 * round_ + 10 * sender + here);
    }
    meet();
    for (int r = 0; r < remote; r++)
        MPI_Send(&out[r], 1, MPI_INT, r, 6, inter);
    MPI_Waitall(remote, requests, MPI_STATUSES_IGNORE);
    for (int r = 0; r < remote; r++) {
        int sender = rank == 0 ? r + 1 : 0;
        MUST(in[r] == 1000 * round_ + 10 * sender + here);
    }
    say("messages done");
}

static void collectives(MPI_Comm inter)
{
    int here, remote, local;
    MPI_Comm_rank(inter, &here);
    MPI_Comm_size(inter, &local);
    MPI_Comm_remote_size(inter, &remote);
    int first = rank == 0, value = round_ + rank, sum = -1, all[64];
    /* from rank 0 of the second group to the first */
    int root = !first ? (here == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0;
    int buffer = root == MPI_ROOT ? round_ * 3 : -1;
    MPI_Bcast(&buffer, 1, MPI_INT, root, inter);
    say("bcast %d", root == MPI_PROC_NULL ? 0 : buffer);
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, inter);
    say("allreduce %d", sum);
    MPI_Allgather(&value, 1, MPI_INT, all, 1, MPI_INT, inter);
    for (int r = 0; r < remote; r++)
        say("allgather %d", all[r]);
    int send[64];
    for (int r = 0; r < remote; r++)
        send[r] = 100 * rank + r + round_;
    MPI_Alltoall(send, 1, MPI_INT, all, 1, MPI_INT, inter);
    for (int r = 0; r < remote; r++)
        say("alltoall %d", all[r]);
    MPI_Datatype types[64];
    int counts[64], at[64];
    for (int r = 0; r < remote; r++) {
        types[r] = MPI_INT;
        counts[r] = 1;
        at[r] = r * (int)sizeof(int);
    }
    memset(all, -1, sizeof all);
    MPI_Alltoallw(send, counts, at, types, all, counts, at, types, inter);
    for (int r = 0; r < remote; r++)
        say("alltoallw %d", all[r]);
    root = first ? MPI_ROOT : 0;
    MPI_Reduce(&value, &sum, 1, MPI_INT, MPI_MAX, root, inter);
    if (first)
        say("reduce %d", sum);
    MPI_Request request;
    MPI_Iallreduce(&value, &sum, 1, MPI_INT, MPI_MIN, inter, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    say("iallreduce %d", sum);
    MPI_Barrier(inter);
}

static void merge(MPI_Comm inter)
{
    MPI_Comm all;
    int here, count, ranks[64], result;
    MPI_Intercomm_merge(inter, rank == 0, &all);
    MPI_Comm_rank(all, &here);
    MPI_Comm_size(all, &count);
    meet();
    MPI_Allgather(&rank, 1, MPI_INT, ranks, 1, MPI_INT, all);
    for (int r = 0; r < count; r++)
        say("merged %d", ranks[r]);
    MPI_Comm_compare(all, MPI_COMM_WORLD, &result);
    say("rank %d of %d, %s", here, count, result == MPI_SIMILAR ? "similar" : "not similar");
    MPI_Comm_free(&all);
}

/*
 * An intercommunicator of two halves is the parent of a second one, which lacks
 * the leaders of both sides. The second one has its sides in the parent's order.
 */
static void without_leaders(void)
{
    MPI_Comm half, parent, others;
    MPI_Group mine, rest;
    int leader = 0, is_right = rank >= size / 2;
    MPI_Comm_split(MPI_COMM_WORLD, is_right, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_right ? 0 : size / 2, 78, &parent);
    MPI_Comm_group(parent, &mine);
    MPI_Group_excl(mine, 1, &leader, &rest);
    MPI_Comm_create(parent, rest, &others);
    meet();
    if (others != MPI_COMM_NULL) {
        describe(others);
        MPI_Comm_free(&others);
    }
    MPI_Group_free(&rest);
    MPI_Group_free(&mine);
    MPI_Comm_free(&parent);
    MPI_Comm_free(&half);
}

static void content(void)
{
    MPI_Comm local, inter, copy;
    if (kept_local == MPI_COMM_NULL) {
        make(&kept_local, &kept);
        MPI_Comm_set_name(kept, "kept");
    }
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Comm_get_name(kept, name, &length);
    say("%s", name);
    describe(kept);
    messages(kept);
    collectives(kept);
    make(&local, &inter);
    if (round_ % 2 == 0) {
        MPI_Comm_dup(inter, &copy);
    } else {
        MPI_Request request;
        MPI_Comm_idup(inter, &copy, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    meet();
    describe(copy);
    messages(copy);
    merge(inter);
    int result;
    MPI_Comm_compare(inter, copy, &result);
    CHECK(result == MPI_CONGRUENT);
    MPI_Comm_free(&inter);
    meet();
    collectives(copy);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&local);
    if (size >= 4)
        without_leaders();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    MPI_Comm_free(&kept);
    MPI_Comm_free(&kept_local);
    MPI_Finalize();
    return 0;
}
