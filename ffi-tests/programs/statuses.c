/*
 * Fields of statuses that MPI sets, and fields that it leaves unchanged, for messages
 * from MPI_PROC_NULL, null requests, and many requests at once.
 */
#include "check.h"

enum { MARK = 77 };

static MPI_Status statuses[4];

static void mark(void)
{
    for (int i = 0; i < 4; i++) {
        MPI_Status *status = &statuses[i];
        status->MPI_SOURCE = status->MPI_TAG = MARK;
        status->MPI_ERROR = MARK;
        MPI_Status_set_elements(status, MPI_INT, 5);
        MPI_Status_set_cancelled(status, 0);
    }
}

static void tell(const char *what, int many)
{
    for (int i = 0; i < many; i++) {
        int count, cancelled, error = statuses[i].MPI_ERROR;
        MPI_Get_count(&statuses[i], MPI_INT, &count);
        MPI_Test_cancelled(&statuses[i], &cancelled);
        if (error != MARK)
            MPI_Error_class(error, &error);
        say("%s %d: source %d tag %d count %d cancelled %d error %s%d", what, i,
            statuses[i].MPI_SOURCE == MPI_PROC_NULL ? -1000 : statuses[i].MPI_SOURCE == MPI_ANY_SOURCE ? -2000 : statuses[i].MPI_SOURCE,
            statuses[i].MPI_TAG == MPI_ANY_TAG ? -3000 : statuses[i].MPI_TAG, count, cancelled, error == MARK ? "as before " : "", error);
    }
}

static void of_nobody(void)
{
    int value = 5, flag;
    MPI_Request requests[2];
    MPI_Message message;
    mark();
    MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &statuses[0]);
    tell("recv", 1);
    mark();
    MPI_Sendrecv(&value, 1, MPI_INT, MPI_PROC_NULL, 3, &value, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &statuses[0]);
    tell("sendrecv", 1);
    mark();
    MPI_Sendrecv_replace(&value, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &statuses[0]);
    tell("sendrecv_replace", 1);
    mark();
    MPI_Probe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &statuses[0]);
    tell("probe", 1);
    mark();
    MPI_Iprobe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &flag, &statuses[0]);
    tell("iprobe", flag);
    mark();
    MPI_Mprobe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &message, &statuses[0]);
    tell("mprobe", 1);
    CHECK(message == MPI_MESSAGE_NO_PROC);
    mark();
    MPI_Mrecv(&value, 1, MPI_INT, &message, &statuses[0]);
    tell("mrecv", 1);
    mark();
    MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Wait(&requests[0], &statuses[0]);
    tell("wait", 1);
    mark();
    MPI_Recv_init(&value, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Wait(&requests[0], &statuses[0]);
    tell("wait for an inactive one", 1);
    mark();
    MPI_Start(&requests[0]);
    MPI_Wait(&requests[0], &statuses[0]);
    tell("wait for a persistent one", 1);
    mark();
    MPI_Test(&requests[0], &flag, &statuses[0]);
    tell("test", flag);
    MPI_Request_free(&requests[0]);
    mark();
    MPI_Wait(&requests[0], &statuses[0]);
    tell("wait for nothing", 1);
    mark();
    MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, 4, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    tell("waitall", 3);
    CHECK(value == 5);
}

/* Sends a message for each of these requests, and some more. */
static void receive(MPI_Request requests[3], int values[3])
{
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (int i = 0; i < 3; i++)
        MPI_Irecv(&values[i], 1, MPI_INT, left, i, MPI_COMM_WORLD, &requests[i]);
    meet();
    for (int i = 0; i < 3; i++)
        MPI_Send(&round_, 1, MPI_INT, right, i, MPI_COMM_WORLD);
}

static void of_many(void)
{
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    int values[3], flag, index, indices[3], count, done;
    MPI_Request requests[3];
    receive(requests, values);
    mark();
    MPI_Wait(&requests[0], &statuses[0]);
    tell("received", 1);
    mark();
    MPI_Waitall(3, requests, statuses);
    tell("waitall", 4);
    meet();
    receive(requests, values);
    mark();
    do
        MPI_Testall(3, requests, &flag, statuses);
    while (!flag);
    tell("testall", 4);
    meet();
    receive(requests, values);
    for (int i = 0; i < 3; i++) {
        mark();
        if (i)
            MPI_Waitany(3, requests, &index, &statuses[0]);
        else
            do
                MPI_Testany(3, requests, &index, &flag, &statuses[0]);
            while (!flag);
        statuses[0].MPI_TAG = 0;
        tell("any", 1);
    }
    mark();
    MPI_Waitany(3, requests, &index, &statuses[0]);
    tell("waitany of none", 1);
    mark();
    MPI_Testany(3, requests, &index, &flag, &statuses[0]);
    tell("testany of none", 1);
    meet();
    receive(requests, values);
    for (done = 0; done < 3; done += count) {
        mark();
        MPI_Waitsome(3, requests, &count, indices, statuses);
        for (int i = 0; i < count; i++)
            statuses[i].MPI_TAG = 0;
        for (int i = 0; i < count; i++)
            say("waitsome: error %s", statuses[i].MPI_ERROR == MARK ? "as before" : "written");
    }
    meet();
    mark();
    values[0] = round_;
    MPI_Sendrecv_replace(values, 1, MPI_INT, right, 7, left, 7, MPI_COMM_WORLD, &statuses[0]);
    tell("replaced", 1);
    meet();
    mark();
    MPI_Sendrecv(&round_, 1, MPI_INT, right, 8, values, 1, MPI_INT, left, 8, MPI_COMM_WORLD, &statuses[0]);
    tell("exchanged", 1);
    meet();
    MPI_Send(&round_, 1, MPI_INT, right, 9, MPI_COMM_WORLD);
    meet();
    mark();
    MPI_Probe(left, 9, MPI_COMM_WORLD, &statuses[0]);
    tell("probed", 1);
    mark();
    MPI_Recv(values, 1, MPI_INT, left, 9, MPI_COMM_WORLD, &statuses[0]);
    tell("received", 1);
    mark();
    MPI_Iprobe(left, 9, MPI_COMM_WORLD, &flag, &statuses[0]);
    tell("nothing to probe", 1);
    meet();
}

/* A request fails, whatever error its status had before; Open MPI 5 reports no error. */
static void of_a_failure_after_others(void)
{
    int sent[2] = {1, 2}, value, class, truncated = 0;
    for (int before = 0; before < 64; before++) {
        MPI_Request request;
        MPI_Irecv(&value, 1, MPI_INT, rank, 11, MPI_COMM_WORLD, &request);
        MPI_Send(sent, 2, MPI_INT, rank, 11, MPI_COMM_WORLD);
        statuses[0].MPI_ERROR = before;
        MPI_Waitall(1, &request, statuses);
        MPI_Error_class(statuses[0].MPI_ERROR, &class);
        truncated += class == MPI_ERR_TRUNCATE;
    }
    say("failures: %d", truncated);
}

/* One of several requests fails. */
static void of_failures(void)
{
    int left = (rank + size - 1) % size, right = (rank + 1) % size, rc, class, count, indices[3], sent[2] = {1, 2}, values[3][2];
    MPI_Request requests[3];
    for (int part = 0; part < 2; part++) {
        for (int i = 0; i < 3; i++)
            MPI_Irecv(values[i], i == 1 ? 1 : 2, MPI_INT, left, i, MPI_COMM_WORLD, &requests[i]);
        meet();
        for (int i = 0; i < 3; i++)
            MPI_Send(sent, 2, MPI_INT, right, i, MPI_COMM_WORLD);
        meet();
        usleep(1000);
        mark();
        if (part == 0) {
            rc = MPI_Waitall(3, requests, statuses);
            MPI_Error_class(rc, &class);
            say("waitall: class %d", class == MPI_ERR_IN_STATUS ? -1 : class);
            /* After a failure, MPICH may leave some entries unchanged. */
            for (int i = 0; i < 2; i++) {
                MPI_Error_class(statuses[i].MPI_ERROR, &class);
                say("%d: error %d", i, class);
            }
            MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        } else {
            int left_over = 3;
            while (left_over > 0) {
                mark();
                rc = MPI_Waitsome(3, requests, &count, indices, statuses);
                if (count == MPI_UNDEFINED)
                    break;
                left_over -= count;
            }
            say("waitsome: %d left", left_over);
        }
        meet();
    }
}

static void content(void)
{
    of_nobody();
    meet();
    of_many();
    of_failures();
    of_a_failure_after_others();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
