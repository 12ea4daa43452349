/*
 * All ways to send and receive a message, also with messages and receives outstanding
 * during collectives.
 */
#include "check.h"

enum { LARGE = 60000 };

static int right, left;
static int out[LARGE], in[LARGE], in2[LARGE];

static void fill(int *buffer, int count, int seed)
{
    for (int i = 0; i < count; i++)
        buffer[i] = seed * 1000003 + i * 7;
}

static int wrong(const int *buffer, int count, int seed)
{
    int bad = 0;
    for (int i = 0; i < count; i++)
        bad += buffer[i] != seed * 1000003 + i * 7;
    return bad;
}

typedef int (*send_function)(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int (*isend_function)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static void modes(int count)
{
    static const struct { const char *name; send_function send; isend_function isend; } all[] = {
        {"standard", MPI_Send, MPI_Isend},
        {"synchronous", MPI_Ssend, MPI_Issend},
        {"ready", MPI_Rsend, MPI_Irsend},
    };
    MPI_Status status;
    for (int mode = 0; mode < 3; mode++) {
        MPI_Request request, sent;
        int seed = rank + 100 * mode + round_;
        int theirs = left + 100 * mode + round_;
        fill(out, count, seed);
        memset(in, 0, sizeof in);
        MPI_Irecv(in, LARGE, MPI_INT, left, 10 + mode, MPI_COMM_WORLD, &request);
        MPI_Barrier(MPI_COMM_WORLD); /* a ready send needs its receive */
        if (all[mode].send(out, count, MPI_INT, right, 10 + mode, MPI_COMM_WORLD) != MPI_SUCCESS)
            say("FAILED send");
        MPI_Wait(&request, &status);
        say_status(all[mode].name, &status, MPI_INT);
        CHECK(wrong(in, count, theirs) == 0);

        memset(in, 0, sizeof in);
        MPI_Irecv(in, LARGE, MPI_INT, MPI_ANY_SOURCE, 20 + mode, MPI_COMM_WORLD, &request);
        meet();
        all[mode].isend(out, count, MPI_INT, right, 20 + mode, MPI_COMM_WORLD, &sent);
        MPI_Wait(&sent, MPI_STATUS_IGNORE);
        MPI_Wait(&request, &status);
        say_status("non-blocking", &status, MPI_INT);
        CHECK(wrong(in, count, theirs) == 0);
    }
}

static void combined(int count)
{
    MPI_Status status;
    MPI_Request request;
    fill(out, count, rank + round_);
    memset(in, 0, sizeof in);
    MPI_Sendrecv(out, count, MPI_INT, right, 1, in, LARGE, MPI_INT, left, 1, MPI_COMM_WORLD, &status);
    say_status("sendrecv", &status, MPI_INT);
    CHECK(wrong(in, count, left + round_) == 0);
    MPI_Sendrecv_replace(in, count, MPI_INT, right, 2, left, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    say_status("replace", &status, MPI_INT);
    CHECK(wrong(in, count, (left + size - 1) % size + round_) == 0);
    fill(out, count, rank + round_);
    MPI_Isendrecv(out, count, MPI_INT, right, 3, in, LARGE, MPI_INT, left, 3, MPI_COMM_WORLD, &request);
    meet();
    MPI_Wait(&request, &status);
    say_status("isendrecv", &status, MPI_INT);
    CHECK(wrong(in, count, left + round_) == 0 && request == MPI_REQUEST_NULL);
    MPI_Isendrecv_replace(in, count, MPI_INT, left, 4, right, 4, MPI_COMM_WORLD, &request);
    meet();
    MPI_Wait(&request, &status);
    say_status("isendrecv_replace", &status, MPI_INT);
    CHECK(wrong(in, count, rank + round_) == 0);
    MPI_Sendrecv(out, 1, MPI_INT, MPI_PROC_NULL, 5, in, 1, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &status);
    say_status("nobody", &status, MPI_INT);
}

/* Messages without receives during a collective: they must exist afterwards, in order. */
static void unexpected(void)
{
    MPI_Status status;
    MPI_Request sent[3];
    int flag;
    int numbers[3] = {round_ * 10 + rank, round_ * 10 + rank + 1, round_ * 10 + rank + 2};
    for (int i = 0; i < 3; i++)
        MPI_Isend(&numbers[i], 1, MPI_INT, right, i == 2 ? 31 : 30, MPI_COMM_WORLD, &sent[i]);
    MPI_Waitall(3, sent, MPI_STATUSES_IGNORE);
    meet();
    meet();
    MPI_Probe(left, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    say_status("probe", &status, MPI_INT);
    do {
        MPI_Iprobe(left, 31, MPI_COMM_WORLD, &flag, &status);
    } while (!flag);
    say_status("iprobe", &status, MPI_INT);
    int got[3] = {-1, -1, -1};
    MPI_Recv(&got[2], 1, MPI_INT, MPI_ANY_SOURCE, 31, MPI_COMM_WORLD, &status);
    meet();
    MPI_Recv(&got[0], 1, MPI_INT, MPI_ANY_SOURCE, 30, MPI_COMM_WORLD, &status);
    MPI_Recv(&got[1], 1, MPI_INT, left, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    say("got %d %d %d", got[0], got[1], got[2]);
    CHECK(got[0] == round_ * 10 + left && got[1] == got[0] + 1 && got[2] == got[0] + 2);
    MPI_Iprobe(MPI_ANY_SOURCE, 30, MPI_COMM_WORLD, &flag, &status);
    CHECK(!flag);
}

/* A message that is matched during a collective. */
static void matched(int count)
{
    MPI_Message first, second, none;
    MPI_Request sent[2], request;
    MPI_Status status;
    int flag;
    static int more[LARGE];
    fill(out, count, rank + round_);
    fill(more, count, rank + round_ + 50);
    MPI_Isend(out, count, MPI_INT, right, 40, MPI_COMM_WORLD, &sent[0]);
    MPI_Isend(more, count, MPI_INT, right, 40, MPI_COMM_WORLD, &sent[1]);
    MPI_Mprobe(left, 40, MPI_COMM_WORLD, &first, &status);
    say_status("mprobe", &status, MPI_INT);
    meet();
    do {
        MPI_Improbe(MPI_ANY_SOURCE, 40, MPI_COMM_WORLD, &flag, &second, &status);
    } while (!flag);
    say_status("improbe", &status, MPI_INT);
    CHECK(MPI_Message_f2c(MPI_Message_c2f(second)) == second && MPI_Message_c2f(first) != MPI_Message_c2f(second));
    MPI_Iprobe(MPI_ANY_SOURCE, 40, MPI_COMM_WORLD, &flag, &status);
    CHECK(!flag);
    meet();
    meet();
    memset(in, 0, sizeof in);
    MPI_Imrecv(in2, count, MPI_INT, &second, &request);
    meet();
    MPI_Mrecv(in, count, MPI_INT, &first, &status);
    say_status("mrecv", &status, MPI_INT);
    MPI_Wait(&request, &status);
    say_status("imrecv", &status, MPI_INT);
    CHECK(first == MPI_MESSAGE_NULL && second == MPI_MESSAGE_NULL);
    CHECK(wrong(in, count, left + round_) == 0 && wrong(in2, count, left + round_ + 50) == 0);
    MPI_Waitall(2, sent, MPI_STATUSES_IGNORE);
    MPI_Mprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &none, &status);
    say_status("mprobe of nobody", &status, MPI_INT);
    CHECK(none == MPI_MESSAGE_NO_PROC);
    MPI_Mrecv(in, 1, MPI_INT, &none, &status);
    say_status("mrecv of nobody", &status, MPI_INT);
    CHECK(none == MPI_MESSAGE_NULL);
    MPI_Improbe(left, 41, MPI_COMM_WORLD, &flag, &none, &status);
    CHECK(!flag && none == MPI_MESSAGE_NULL);
}

/* A message that has been matched outlives its communicator. */
static void matched_and_freed(void)
{
    MPI_Comm copy;
    MPI_Message message;
    int value = round_ * 10 + rank, got = -1;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    if (rank != 0)
        MPI_Send(&value, 1, MPI_INT, rank - 1, 60, copy);
    if (rank != size - 1)
        MPI_Mprobe(right, 60, copy, &message, MPI_STATUS_IGNORE);
    MPI_Comm_free(&copy);
    meet();
    meet();
    if (rank != size - 1) {
        MPI_Mrecv(&got, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
        CHECK(got == round_ * 10 + right && message == MPI_MESSAGE_NULL);
    }
}

static MPI_Request standing;
static int standing_value = -1;

/* A receive that is posted in one round and completes two rounds later. */
static void long_receive(void)
{
    MPI_Status status;
    if (round_ % 3 == 0)
        MPI_Irecv(&standing_value, 1, MPI_INT, left, 50, MPI_COMM_WORLD, &standing);
    if (round_ % 3 == 2) {
        int value = round_ * 100 + rank;
        MPI_Send(&value, 1, MPI_INT, right, 50, MPI_COMM_WORLD);
        MPI_Wait(&standing, &status);
        say_status("long receive", &status, MPI_INT);
        CHECK(standing_value == round_ * 100 + left);
    }
}

static void to_self(void)
{
    MPI_Request request;
    MPI_Status status;
    MPI_Comm alone;
    MPI_Comm_dup(MPI_COMM_SELF, &alone);
    fill(out, LARGE, rank + round_);
    memset(in, 0, sizeof in);
    MPI_Isend(out, LARGE, MPI_INT, 0, 62, round_ % 2 ? alone : MPI_COMM_SELF, &request);
    meet();
    meet();
    MPI_Recv(in, LARGE, MPI_INT, 0, 62, round_ % 2 ? alone : MPI_COMM_SELF, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    say_status("large, to self", &status, MPI_INT);
    CHECK(wrong(in, LARGE, rank + round_) == 0);
    MPI_Comm_free(&alone);
    int value = rank * 7 + round_, got = 0;
    MPI_Isend(&value, 1, MPI_INT, 0, 60, MPI_COMM_SELF, &request);
    meet();
    MPI_Recv(&got, 1, MPI_INT, 0, 60, MPI_COMM_SELF, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    say_status("self", &status, MPI_INT);
    CHECK(got == value);
    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 61, MPI_COMM_SELF, &request);
    meet();
    MPI_Send(&round_, 1, MPI_INT, 0, 61, MPI_COMM_SELF);
    MPI_Wait(&request, &status);
    CHECK(got == round_);
    /* The library decides if this one can be cancelled. */
    MPI_Issend(&value, 1, MPI_INT, 0, 63, MPI_COMM_SELF, &request);
    MPI_Cancel(&request);
    MPI_Request_free(&request);
    meet();
    MPI_Irecv(&got, 1, MPI_INT, 0, 63, MPI_COMM_SELF, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void content(void)
{
    right = (rank + 1) % size;
    left = (rank + size - 1) % size;
    modes(3);
    modes(500);
    modes(LARGE);
    combined(2);
    combined(LARGE);
    unexpected();
    matched(4);
    matched(LARGE);
    matched_and_freed();
    long_receive();
    to_self();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    if (standing != MPI_REQUEST_NULL && rounds % 3 != 0) {
        MPI_Cancel(&standing);
        MPI_Wait(&standing, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
