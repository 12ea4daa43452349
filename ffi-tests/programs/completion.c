/* Waiting, testing, persistent requests, cancelling and freeing. */
#include "check.h"

enum { MANY = 6 };

static int right, left;
static MPI_Request kept_send, kept_receive;
static int kept_out, kept_in;

static void all_and_some(void)
{
    MPI_Request requests[2 * MANY + 1];
    MPI_Status statuses[2 * MANY + 1];
    int out[MANY], in[MANY], flag;
    requests[2 * MANY] = MPI_REQUEST_NULL;
    for (int i = 0; i < MANY; i++) {
        in[i] = -1;
        MPI_Irecv(&in[i], 1, MPI_INT, left, i, MPI_COMM_WORLD, &requests[i]);
    }
    meet();
    MPI_Testall(MANY, requests, &flag, statuses);
    say("testall of nothing sent: %d", flag);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < MANY; i++) {
        out[i] = round_ + 10 * i + rank;
        MPI_Isend(&out[i], 1, MPI_INT, right, i, MPI_COMM_WORLD, &requests[MANY + i]);
    }
    MPI_Waitall(2 * MANY + 1, requests, statuses);
    for (int i = 0; i < MANY; i++) {
        MUST(in[i] == round_ + 10 * i + left && requests[i] == MPI_REQUEST_NULL);
        say_status("waitall", &statuses[i], MPI_INT);
        say("error %d", statuses[i].MPI_ERROR);
    }
    say_status("null", &statuses[2 * MANY], MPI_INT);

    for (int i = 0; i < MANY; i++)
        MPI_Irecv(&in[i], 1, MPI_INT, left, i, MPI_COMM_WORLD, &requests[i]);
    meet();
    for (int i = 0; i < MANY; i++) {
        out[i] = round_ + 20 * i + rank;
        MPI_Send(&out[i], 1, MPI_INT, right, i, MPI_COMM_WORLD);
    }
    int done = 0, seen = 0, indices[MANY], outcount;
    while (done < MANY) {
        MPI_Waitsome(MANY, requests, &outcount, indices, statuses);
        for (int i = 0; i < outcount; i++) {
            seen |= 1 << indices[i];
            MUST(statuses[i].MPI_TAG == indices[i] && in[indices[i]] == round_ + 20 * indices[i] + left);
        }
        done += outcount;
    }
    say("waitsome: %x", seen);
    MPI_Waitsome(MANY, requests, &outcount, indices, statuses);
    CHECK(outcount == MPI_UNDEFINED);
    MPI_Testsome(MANY, requests, &outcount, indices, statuses);
    CHECK(outcount == MPI_UNDEFINED);
}

static void any_and_one(void)
{
    MPI_Request requests[3], other;
    MPI_Status status;
    int out = round_, in[3], index, flag;
    for (int i = 0; i < 3; i++)
        MPI_Irecv(&in[i], 1, MPI_INT, left, 100 + i, MPI_COMM_WORLD, &requests[i]);
    MPI_Testany(3, requests, &index, &flag, &status);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(&out, 1, MPI_INT, right, 101, MPI_COMM_WORLD);
    MPI_Waitany(3, requests, &index, &status);
    say("waitany %d", index);
    say_status("waitany", &status, MPI_INT);
    meet();
    MPI_Send(&out, 1, MPI_INT, right, 100, MPI_COMM_WORLD);
    do {
        MPI_Testany(3, requests, &index, &flag, &status);
    } while (!flag);
    say("testany %d", index);
    meet();
    MPI_Send(&out, 1, MPI_INT, right, 102, MPI_COMM_WORLD);
    do {
        MPI_Request_get_status(requests[2], &flag, &status);
    } while (!flag);
    say_status("get_status", &status, MPI_INT);
    CHECK(requests[2] != MPI_REQUEST_NULL);
    meet();
    do {
        MPI_Test(&requests[2], &flag, &status);
    } while (!flag);
    say_status("test", &status, MPI_INT);
    CHECK(requests[2] == MPI_REQUEST_NULL && in[0] == round_ && in[1] == round_ && in[2] == round_);
    MPI_Waitany(3, requests, &index, &status);
    say_status("waitany of nothing", &status, MPI_INT);
    CHECK(index == MPI_UNDEFINED);
    MPI_Test(&requests[0], &flag, &status);
    CHECK(flag);
    MPI_Wait(&requests[0], &status);
    say_status("wait for nothing", &status, MPI_INT);
    MPI_Request_get_status(MPI_REQUEST_NULL, &flag, &status);
    CHECK(flag);

    MPI_Irecv(&in[0], 1, MPI_INT, left, 110, MPI_COMM_WORLD, &other);
    meet();
    MPI_Cancel(&other);
    MPI_Wait(&other, &status);
    MPI_Test_cancelled(&status, &flag);
    say("cancelled %d", flag);
    CHECK(other == MPI_REQUEST_NULL);
    MPI_Isend(&out, 1, MPI_INT, right, 111, MPI_COMM_WORLD, &other);
    MPI_Request_free(&other);
    CHECK(other == MPI_REQUEST_NULL);
    meet();
    MPI_Recv(&in[0], 1, MPI_INT, left, 111, MPI_COMM_WORLD, &status);
    CHECK(in[0] == round_);
}

/* A receive whose request is freed, and whose datatype too. */
static void freed(void)
{
    MPI_Request request;
    MPI_Datatype pairs;
    static volatile int in[4];
    int out[2] = {round_ + 1, rank + 1}, token = 0;
    in[0] = in[1] = in[2] = in[3] = -1;
    MPI_Type_vector(2, 1, 2, MPI_INT, &pairs);
    MPI_Type_commit(&pairs);
    MPI_Irecv((void *)in, 1, pairs, left, 120, MPI_COMM_WORLD, &request);
    MPI_Type_free(&pairs);
    MPI_Request_free(&request);
    meet();
    meet();
    MPI_Send(out, 2, MPI_INT, right, 120, MPI_COMM_WORLD);
    MPI_Sendrecv(&token, 1, MPI_INT, right, 121, &token, 1, MPI_INT, left, 121, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    while (in[2] == -1) {
        int flag;
        MPI_Iprobe(MPI_ANY_SOURCE, 122, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
    CHECK(in[0] == round_ + 1 && in[1] == -1 && in[2] == left + 1 && in[3] == -1);

    MPI_Type_vector(2, 1, 3, MPI_INT, &pairs);
    MPI_Type_commit(&pairs);
    int spread[4] = {-1, -1, -1, -1};
    MPI_Irecv(spread, 1, pairs, left, 123, MPI_COMM_WORLD, &request);
    MPI_Type_free(&pairs);
    meet();
    meet();
    MPI_Send(out, 2, MPI_INT, right, 123, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(spread[0] == round_ + 1 && spread[1] == -1 && spread[3] == left + 1);
}

static void persistent(void)
{
    MPI_Request both[2], modes[6];
    MPI_Status status, statuses[6];
    int flag, out[3], in[3];
    if (kept_send == MPI_REQUEST_NULL) {
        MPI_Send_init(&kept_out, 1, MPI_INT, right, 130, MPI_COMM_WORLD, &kept_send);
        MPI_Recv_init(&kept_in, 1, MPI_INT, left, 130, MPI_COMM_WORLD, &kept_receive);
    }
    MPI_Test(&kept_receive, &flag, &status);
    say_status("inactive", &status, MPI_INT);
    CHECK(flag && kept_receive != MPI_REQUEST_NULL);
    kept_out = 1000 * round_ + rank;
    MPI_Start(&kept_receive);
    meet();
    MPI_Start(&kept_send);
    meet();
    MPI_Wait(&kept_receive, &status);
    MPI_Wait(&kept_send, MPI_STATUS_IGNORE);
    say_status("persistent", &status, MPI_INT);
    CHECK(kept_in == 1000 * round_ + left && kept_receive != MPI_REQUEST_NULL);
    both[0] = kept_receive;
    both[1] = kept_send;
    kept_out++;
    MPI_Startall(2, both);
    meet();
    MPI_Waitall(2, both, statuses);
    CHECK(kept_in == 1000 * round_ + left + 1 && both[0] == kept_receive);
    int index;
    MPI_Waitany(2, both, &index, &status);
    CHECK(index == MPI_UNDEFINED);

    MPI_Ssend_init(&out[0], 1, MPI_INT, right, 140, MPI_COMM_WORLD, &modes[0]);
    MPI_Rsend_init(&out[1], 1, MPI_INT, right, 141, MPI_COMM_WORLD, &modes[1]);
    MPI_Send_init(&out[2], 1, MPI_INT, right, 142, MPI_COMM_WORLD, &modes[2]);
    for (int i = 0; i < 3; i++)
        MPI_Recv_init(&in[i], 1, MPI_INT, MPI_ANY_SOURCE, 140 + i, MPI_COMM_WORLD, &modes[3 + i]);
    for (int turn = 0; turn < 2; turn++) {
        MPI_Startall(3, modes + 3);
        meet();
        for (int i = 0; i < 3; i++)
            out[i] = round_ + turn + i;
        MPI_Startall(3, modes);
        MPI_Waitall(6, modes, statuses);
        for (int i = 0; i < 3; i++) {
            MUST(in[i] == round_ + turn + i);
            say_status("receive", &statuses[3 + i], MPI_INT);
        }
    }
    MPI_Start(&modes[3]);
    meet();
    MPI_Cancel(&modes[3]);
    MPI_Wait(&modes[3], &status);
    MPI_Test_cancelled(&status, &flag);
    say("cancelled %d", flag);
    for (int i = 0; i < 6; i++)
        MPI_Request_free(&modes[i]);
    CHECK(modes[0] == MPI_REQUEST_NULL);
}

/*
 * More requests than are tested at once, of all kinds; some are inactive or
 * null.
 */
static void many(void)
{
    enum { COUNT = 75 };
    static int out[2 * COUNT], in[COUNT][3];
    MPI_Request requests[2 * COUNT + 2];
    MPI_Status statuses[2 * COUNT + 2];
    MPI_Datatype pair;
    int flag = 0, sum = 0, total = 0;
    MPI_Type_vector(2, 1, 2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    for (int i = 0; i < COUNT; i++) {
        in[i][0] = in[i][1] = in[i][2] = -1;
        int from = i % 5 == 0 ? MPI_PROC_NULL : i % 2 ? left : MPI_ANY_SOURCE;
        MPI_Irecv(in[i], 1, pair, from, 200 + i, MPI_COMM_WORLD, &requests[i]);
    }
    requests[2 * COUNT] = MPI_REQUEST_NULL;
    requests[2 * COUNT + 1] = kept_receive;
    meet();
    MPI_Type_free(&pair);
    for (int i = 0; i < COUNT; i++) {
        out[2 * i] = round_ * COUNT + i;
        out[2 * i + 1] = rank;
        MPI_Isend(&out[2 * i], 2, MPI_INT, i % 5 == 0 ? MPI_PROC_NULL : right, 200 + i, MPI_COMM_WORLD, &requests[COUNT + i]);
    }
    MPI_Waitall(2 * COUNT + 2, requests, statuses);
    for (int i = 0; i < COUNT; i++) {
        MUST(requests[i] == MPI_REQUEST_NULL && requests[COUNT + i] == MPI_REQUEST_NULL && in[i][1] == -1);
        if (i % 5 != 0)
            MUST(in[i][0] == round_ * COUNT + i && in[i][2] == left);
        say_status("many", &statuses[i], MPI_INT);
    }
    CHECK(requests[2 * COUNT + 1] == kept_receive);
    say_status("null", &statuses[2 * COUNT], MPI_INT);
    say_status("inactive", &statuses[2 * COUNT + 1], MPI_INT);

    /* A collective and a persistent pair, tested until all have completed. */
    kept_out = rank + round_;
    MPI_Iallreduce(&kept_out, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    requests[1] = kept_receive;
    requests[2] = kept_send;
    MPI_Startall(2, requests + 1);
    while (!flag)
        MPI_Testall(3, requests, &flag, statuses);
    MPI_Allreduce(&kept_out, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == total && kept_in == left + round_ && requests[0] == MPI_REQUEST_NULL && requests[2] == kept_send);
    say_status("testall", &statuses[1], MPI_INT);
    MPI_Testall(3, requests, &flag, statuses);
    CHECK(flag);
    say_status("testall of nothing", &statuses[1], MPI_INT);
}

static void content(void)
{
    right = (rank + 1) % size;
    left = (rank + size - 1) % size;
    all_and_some();
    any_and_one();
    freed();
    persistent();
    many();
}

int main(int argc, char **argv)
{
    kept_send = kept_receive = MPI_REQUEST_NULL;
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    MPI_Request_free(&kept_send);
    MPI_Request_free(&kept_receive);
    MPI_Finalize();
    return 0;
}
