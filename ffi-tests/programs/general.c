/*
 * Generalized requests, some of which are active or complete while the state of
 * the job is saved.
 */
#include "check.h"

typedef struct { int number, queries, frees, cancels, told_complete; } State;

static State states[4], spare_state;
static MPI_Request requests[4], freed_open;

static int query(void *extra, MPI_Status *status)
{
    State *state = extra;
    state->queries++;
    MPI_Status_set_elements(status, MPI_INT, state->number);
    MPI_Status_set_cancelled(status, state->cancels > 0 && !state->told_complete);
    status->MPI_SOURCE = 7;
    status->MPI_TAG = state->number;
    return MPI_SUCCESS;
}

static int release(void *extra)
{
    ((State *)extra)->frees++;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
    State *state = extra;
    state->cancels++;
    state->told_complete = complete;
    return MPI_SUCCESS;
}

static void begin(State *state, int number, MPI_Request *request)
{
    *state = (State){.number = number};
    MPI_Grequest_start(query, release, cancel, state, request);
    CHECK(*request != MPI_REQUEST_NULL);
}

static void say_state(const State *state)
{
    say("%d: %d queries, %d frees, %d cancels, complete %d", state->number, state->queries, state->frees, state->cancels,
        state->told_complete);
}

static void content(void)
{
    MPI_Status status, statuses[4];
    MPI_Request old, receive;
    int flag, index, value = -1, count, indices[4], next = (rank + 1) % size;
    if (round_ == 0)
        for (int i = 0; i < 4; i++)
            begin(&states[i], i, &requests[i]);
    meet();
    MPI_Testall(4, requests, &flag, statuses);
    CHECK(!flag);
    MPI_Testany(4, requests, &index, &flag, &status);
    CHECK(!flag && index == MPI_UNDEFINED);
    meet();

    /*
     * A request that was started a round ago is completed, and tested after a
     * collective.
     */
    MPI_Grequest_complete(requests[round_ % 4]);
    meet();
    MPI_Request_get_status(requests[round_ % 4], &flag, &status);
    CHECK(flag);
    say_status("got", &status, MPI_INT);
    if (round_ % 3 == 0) {
        MPI_Wait(&requests[round_ % 4], &status);
    } else if (round_ % 3 == 1) {
        MPI_Testany(4, requests, &index, &flag, &status);
        CHECK(flag && index == round_ % 4);
    } else {
        MPI_Waitsome(4, requests, &count, indices, statuses);
        CHECK(count == 1 && indices[0] == round_ % 4);
        status = statuses[0];
    }
    say_status("ended", &status, MPI_INT);
    CHECK(requests[round_ % 4] == MPI_REQUEST_NULL);
    CHECK(states[round_ % 4].frees == 1);
    begin(&states[round_ % 4], round_ % 4 + 4 * (round_ + 1), &requests[round_ % 4]);

    /* A generalized request is waited for together with a message. */
    old = requests[(round_ + 1) % 4];
    MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &receive);
    meet();
    MPI_Request both[2] = {receive, old};
    MPI_Send(&round_, 1, MPI_INT, next, 3, MPI_COMM_WORLD);
    MPI_Cancel(&both[1]);
    MPI_Grequest_complete(both[1]);
    MPI_Waitall(2, both, statuses);
    CHECK(value == round_);
    say_status("cancelled", &statuses[1], MPI_INT);
    say_state(&states[(round_ + 1) % 4]);
    begin(&states[(round_ + 1) % 4], (round_ + 1) % 4 + 4 * (round_ + 1), &requests[(round_ + 1) % 4]);

    /* A request that is freed before it is complete. */
    begin(&spare_state, 100 + round_, &freed_open);
    old = freed_open;
    MPI_Request_free(&freed_open);
    CHECK(freed_open == MPI_REQUEST_NULL && spare_state.frees == 0);
    meet();
    MPI_Grequest_complete(old);
    say_state(&spare_state);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    for (int i = 0; i < 4; i++) {
        MPI_Grequest_complete(requests[i]);
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
