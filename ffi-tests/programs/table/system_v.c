/*
 * System V semaphores and message queues of each process.
 *
 * A set and a queue live as long as the program. Another set is replaced by a new one
 * in each third round. A set with a key is repeatedly made and removed: its
 * creation fails if a failure has left it behind. Messages wait at each collective; permissions
 * and the limit of the queue change.
 */
#define _GNU_SOURCE
#include "../check.h"
#include <errno.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>

enum { COUNT = 3 };

struct message {
    long type;
    char text[40];
};

static int set, exchanged, queue;
static key_t key;

static int get(int identifier, int semaphore)
{
    return semctl(identifier, semaphore, GETVAL);
}

static void add(int identifier, int semaphore, int value)
{
    struct sembuf operation = {semaphore, value, IPC_NOWAIT};
    int rc = semop(identifier, &operation, 1);
    say("add %d to %d: %d", value, semaphore, rc == 0 ? 0 : errno);
}

static void use_sets(void)
{
    add(set, 0, round_ % 3 ? 2 : -3);
    meet();
    add(set, round_ % 2, 1);
    say("set: %d %d %d", get(set, 0), get(set, 1), get(set, 2));
    if (round_ % 3 == 1) {
        MUST(semctl(exchanged, 0, IPC_RMID) == 0);
        exchanged = semget(IPC_PRIVATE, 1, 0600);
        MUST(semctl(exchanged, 0, SETVAL, 100 * round_) == 0);
    }
    meet();
    add(exchanged, 0, 1);
    say("exchanged: %d", get(exchanged, 0));
}

/* No checkpoint is possible meanwhile, since any process may use a set with a key. */
static void use_keyed(void)
{
    if (round_ % 4)
        return;
    int keyed = semget(key, COUNT, IPC_CREAT | IPC_EXCL | 0640);
    say("made: %d", keyed >= 0 ? 0 : errno);
    MUST(semget(key, 0, 0) == keyed);
    meet();
    add(keyed, round_ % COUNT, 1);
    say("keyed: %d %d %d", get(keyed, 0), get(keyed, 1), get(keyed, 2));
    MUST(semctl(keyed, 0, IPC_RMID) == 0);
    say("key: %d", semget(key, 0, 0) < 0 ? errno : 0);
}

static void send_text(long type)
{
    struct message message = {.type = type};
    int length = snprintf(message.text, sizeof message.text, "round %d type %ld", round_, type);
    MUST(msgsnd(queue, &message, length, IPC_NOWAIT) == 0);
}

static void receive_text(long type)
{
    struct message message;
    ssize_t length = msgrcv(queue, &message, sizeof message.text, type, IPC_NOWAIT);
    if (length < 0)
        say("receive: error %d", errno);
    else
        say("receive: type %ld, %.*s", message.type, (int)length, message.text);
}

static void use_queue(void)
{
    struct msqid_ds about;
    send_text(1);
    send_text(2);
    meet();
    receive_text(round_ % 4 == 3 ? 0 : 2);
    if (round_ == 6) {
        MUST(msgctl(queue, IPC_STAT, &about) == 0);
        about.msg_qbytes /= 2;
        about.msg_perm.mode = 0620;
        MUST(msgctl(queue, IPC_SET, &about) == 0);
    }
    meet();
    receive_text(round_ % 2 ? 1 : -2);
    MUST(msgctl(queue, IPC_STAT, &about) == 0);
    say("queue: %ld messages, mode %o", (long)about.msg_qnum, about.msg_perm.mode);
    say("limit: %ld bytes", (long)about.msg_qbytes);
}

static void content(void)
{
    use_sets();
    use_keyed();
    use_queue();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    key = 0x5e000000 + getpid();
    set = semget(IPC_PRIVATE, COUNT, 0600);
    MUST(semctl(set, 0, SETVAL, 5) == 0);
    exchanged = semget(IPC_PRIVATE, 1, 0600);
    queue = msgget(IPC_PRIVATE, 0600);
    run_rounds(argc, argv, content);
    MUST(semctl(set, 0, IPC_RMID) == 0 && semctl(exchanged, 0, IPC_RMID) == 0);
    MUST(msgctl(queue, IPC_RMID, NULL) == 0);
    MPI_Finalize();
    return 0;
}
