/*
 * Partitioned messages: requests are made once and started in every round; partitions
 * become ready in another order each time.
 */
#include "check.h"

enum { PARTS = 8, LENGTH = 64, TAGS = 3 };

static double out[TAGS][PARTS * LENGTH], in[TAGS][PARTS * LENGTH];
static MPI_Request sends[TAGS], receives[TAGS], brief[2];

static double value(int from, int tag, int i)
{
    return round_ * 1e6 + from * 1e5 + tag * 1e4 + i;
}

static void make(void)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    for (int tag = 0; tag < TAGS; tag++) {
        /* Two pairs of requests have one tag, so they match only by the order of the calls. */
        int number = tag == 0 ? 0 : 1;
        MPI_Psend_init(out[tag], PARTS, LENGTH, MPI_DOUBLE, right, number, MPI_COMM_WORLD, MPI_INFO_NULL, &sends[tag]);
        MPI_Precv_init(in[tag], PARTS / 2, 2 * LENGTH, MPI_DOUBLE, left, number, MPI_COMM_WORLD, MPI_INFO_NULL, &receives[tag]);
    }
}

static void ready(int tag)
{
    int list[2] = {(round_ + 5) % PARTS, (round_ + 4) % PARTS};
    for (int i = 0; i < PARTS * LENGTH; i++)
        out[tag][i] = value(rank, tag, i);
    MPI_Pready_list(2, list, sends[tag]);
    for (int i = 6; i < PARTS + 4; i++) {
        int part = (round_ + i) % PARTS;
        if (tag == 1 && part + 1 < PARTS && i + 1 < PARTS + 4) {
            MPI_Pready_range(part, part + 1, sends[tag]);
            i++;
        } else {
            MPI_Pready(part, sends[tag]);
        }
    }
}

static void content(void)
{
    int flag, right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Request all[2 * TAGS];
    MPI_Status statuses[2 * TAGS];
    if (round_ == 0)
        make();
    meet();
    memset(in, -1, sizeof in);
    /* Started separately: Open MPI 5.0 would hang otherwise. */
    for (int tag = 0; tag < TAGS; tag++) {
        MPI_Start(&receives[tag]);
        MPI_Start(&sends[tag]);
    }
    meet();
    for (int tag = TAGS; tag-- > 0;)
        ready(tag);
    meet();
    for (int part = 0; part < PARTS / 2; part++)
        do
            MPI_Parrived(receives[2], part, &flag);
        while (!flag);
    for (int tag = 0; tag < TAGS; tag++) {
        all[2 * tag] = sends[tag];
        all[2 * tag + 1] = receives[tag];
    }
    if (round_ % 2)
        MPI_Waitall(2 * TAGS, all, statuses);
    else
        for (int i = 2 * TAGS; i-- > 0;)
            MPI_Wait(&all[i], &statuses[i]);
    for (int tag = 0; tag < TAGS; tag++) {
        int wrong = 0;
        for (int i = 0; i < PARTS * LENGTH; i++)
            wrong += in[tag][i] != value(left, tag, i);
        CHECK(wrong == 0);
        say("%d: %g", tag, in[tag][7]);
        MUST(all[2 * tag] == sends[tag] && all[2 * tag + 1] == receives[tag]);
    }
    meet();
    /* A pair that lives for two rounds; one end is freed before the other. */
    if (round_ % 3 == 0) {
        MPI_Psend_init(out[0], 1, LENGTH, MPI_DOUBLE, left, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &brief[0]);
        MPI_Precv_init(in[0], 1, LENGTH, MPI_DOUBLE, right, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &brief[1]);
        MPI_Start(&brief[0]);
        MPI_Start(&brief[1]);
        MPI_Pready(0, brief[0]);
        MPI_Waitall(2, brief, MPI_STATUSES_IGNORE);
        CHECK(in[0][3] == value(right, 0, 3));
        MPI_Request_free(&brief[0]);
    } else if (round_ % 3 == 2) {
        MPI_Request_free(&brief[1]);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    for (int tag = 0; tag < TAGS; tag++) {
        MPI_Request_free(&sends[tag]);
        MPI_Request_free(&receives[tag]);
    }
    if (rounds % 3 != 0)
        MPI_Request_free(&brief[1]);
    MPI_Finalize();
    return 0;
}
