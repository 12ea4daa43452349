/*
 * A thread that waits for System V semaphores and messages of its own process.
 *
 * The main thread wakes the other one between collectives, and reads the reply. Every
 * three rounds, the set of semaphores and the queue are removed and new ones are made. A
 * rollback can therefore return the thread to a wait for objects that were removed since.
 */
#define _GNU_SOURCE
#include "../check.h"
#include <pthread.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>

enum { REQUEST, REPLY, COUNT };

struct message {
    long type;
    int value;
};

static int set, queue;

static int change(int semaphore, int value)
{
    struct sembuf operation = {semaphore, value, 0};
    return semop(set, &operation, 1);
}

static void *serve(void *unused)
{
    struct message message;
    for (;;) {
        MUST(change(REQUEST, -1) == 0);
        MUST(msgrcv(queue, &message, sizeof message.value, 1, 0) == sizeof message.value);
        if (message.value < 0)
            return unused;
        message.type = 2;
        message.value = 3 * message.value + 1;
        MUST(msgsnd(queue, &message, sizeof message.value, 0) == 0);
        MUST(change(REPLY, 1) == 0);
    }
}

static void send_request(int value)
{
    struct message message = {1, value};
    MUST(change(REQUEST, 1) == 0);
    meet();
    MUST(msgsnd(queue, &message, sizeof message.value, 0) == 0);
}

static void ask(int value)
{
    struct message message;
    send_request(value);
    MUST(change(REPLY, -1) == 0);
    MUST(msgrcv(queue, &message, sizeof message.value, 2, 0) == sizeof message.value);
    say("%d: %d", value, message.value);
}

static void content(void)
{
    static pthread_t server;
    if (round_ % 3 == 0) {
        set = semget(IPC_PRIVATE, COUNT, 0600);
        queue = msgget(IPC_PRIVATE, 0600);
        MUST(pthread_create(&server, NULL, serve, NULL) == 0);
    }
    meet();
    ask(10 * round_);
    meet();
    ask(10 * round_ + 5);
    if (round_ % 3 == 2 || round_ == rounds - 1) {
        send_request(-1);
        MUST(pthread_join(server, NULL) == 0);
        MUST(semctl(set, 0, IPC_RMID) == 0 && msgctl(queue, IPC_RMID, NULL) == 0);
        meet();
    }
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
