/*
 * kernel_state ROUNDS PAUSE KIND [LAST]: in round 3, rank 1 makes an object of
 * this KIND in the kernel, which no other process could get. Rank 1 removes the
 * object in round LAST (default: the last one). The object is not used otherwise.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/mempolicy.h>
#include <linux/perf_event.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <pty.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

static const char *kind = "";
static int first = 3, last = 1 << 30, made = -1, other = -1;
static aio_context_t context;
static volatile int is_over;
static struct rlimit kept;

static int is(const char *name)
{
    return strcmp(kind, name) == 0;
}

/* A listener with a waiting connection. */
static int listen_to_itself(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    MUST(bind(listener, (void *)&address, length) == 0 && listen(listener, 1) == 0);
    MUST(getsockname(listener, (void *)&address, &length) == 0);
    other = socket(AF_INET, SOCK_STREAM, 0);
    MUST(connect(other, (void *)&address, length) == 0);
    return listener;
}

/* A socket that is connected to itself. */
static int connect_to_itself(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int client = socket(AF_INET, SOCK_STREAM, 0);
    MUST(bind(client, (void *)&address, length) == 0);
    MUST(getsockname(client, (void *)&address, &length) == 0);
    MUST(connect(client, (void *)&address, length) == 0);
    return client;
}

static char queue_name[64];

static int make_queue(void)
{
    snprintf(queue_name, sizeof queue_name, "/kernel_state.%d", (int)getpid());
    return mq_open(queue_name, O_CREAT | O_EXCL | O_RDWR, 0600, NULL);
}

/* An unnamed queue that is open twice, as if by two processes. */
static int open_twice(void)
{
    int queue = make_queue();
    other = mq_open(queue_name, O_WRONLY);
    mq_unlink(queue_name);
    return queue;
}

/* A queue that is to send a signal. */
static int make_notifying(void)
{
    int queue = make_queue();
    mq_unlink(queue_name);
    MUST(mq_notify(queue, &(struct sigevent){.sigev_notify = SIGEV_NONE}) == 0);
    return queue;
}

static int open_removed(void)
{
    MUST(mkdir("removed", 0700) == 0);
    int directory = open("removed", O_RDONLY | O_DIRECTORY);
    MUST(rmdir("removed") == 0);
    return directory;
}

static int open_fifo(void)
{
    MUST(mkfifo("fifo", 0600) == 0);
    int fifo = open("fifo", O_RDWR);
    MUST(unlink("fifo") == 0);
    return fifo;
}

/* A pipe whose other end belongs to a child. */
static int pipe_to_child(void)
{
    int ends[2];
    MUST(pipe(ends) == 0);
    if (fork() == 0) {
        char byte;
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) == 1);
    }
    close(ends[0]);
    return ends[1];
}

static int run_raw(void *unused)
{
    (void)unused;
    while (!is_over)
        syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = 1000000}, NULL);
    syscall(SYS_exit, 0);
    return 0;
}

static int make_raw_thread(void)
{
    static char stack[1 << 16] __attribute__((aligned(16)));
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    return clone(run_raw, stack + sizeof stack, flags, NULL);
}

/* A set of semaphores that the kernel changes back when the process exits. */
static int make_undone(void)
{
    int set = semget(IPC_PRIVATE, 1, 0600);
    MUST(semop(set, &(struct sembuf){0, 1, SEM_UNDO}, 1) == 0);
    return set;
}

/* A queue that a child has used. */
static int share_queue(void)
{
    struct { long type; } message = {1};
    int queue = msgget(IPC_PRIVATE, 0600);
    pid_t child = fork();
    if (child == 0)
        _exit(msgsnd(queue, &message, 0, 0));
    waitpid(child, NULL, 0);
    return queue;
}

/* A set of semaphores that a child has made. */
static int open_set(void)
{
    key_t key = 0x5d000000 + getpid();
    pid_t child = fork();
    if (child == 0)
        _exit(semget(key, 1, IPC_CREAT | IPC_EXCL | 0600) < 0);
    waitpid(child, NULL, 0);
    return semget(key, 1, 0);
}

/* The second page of shared memory has a NUMA policy. */
static int bind_shared(void)
{
    long page = getpagesize();
    char *at = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return (int)syscall(SYS_mbind, at + page, page, MPOL_BIND, &(unsigned long){1}, 64, 0);
}

/* A request that completes only when its context is destroyed. */
static int await_nothing(void)
{
    struct iocb request = {.aio_lio_opcode = IOCB_CMD_POLL, .aio_buf = POLLIN}, *all = &request;
    request.aio_fildes = other = eventfd(0, 0);
    MUST(syscall(SYS_io_setup, 8, &context) == 0);
    return (int)syscall(SYS_io_submit, context, 1L, &all) - 1;
}

/* A context of kernel AIO, set up by a system call of the program itself. */
static int set_up_raw(void)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result)
                     : "0"((long)SYS_io_setup), "D"(8L), "S"(&context) : "rcx", "r11", "memory");
    return (int)result;
}

/* A counter of this process's time. */
static int open_counter(void)
{
    struct perf_event_attr about = {.type = PERF_TYPE_SOFTWARE, .size = sizeof about};
    about.config = PERF_COUNT_SW_TASK_CLOCK;
    return (int)syscall(SYS_perf_event_open, &about, 0, -1, -1, 0);
}

static int make_map(void)
{
    union bpf_attr about = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8};
    about.max_entries = 1;
    return (int)syscall(SYS_bpf, BPF_MAP_CREATE, &about, sizeof about);
}

static int make_ruleset(void)
{
    struct { unsigned long access; } about = {1};
    return (int)syscall(444, &about, sizeof about, 0);
}

/* A name in the file system to which other processes could connect. */
static int listen_at_path(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    MUST(bind(server, (void *)&address, sizeof address) == 0 && listen(server, 1) == 0);
    return server;
}

static int receive_datagrams(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int receiver = socket(AF_INET, SOCK_DGRAM, 0);
    MUST(bind(receiver, (void *)&address, sizeof address) == 0);
    return receiver;
}

static int make(void)
{
    if (is("perf"))
        return open_counter();
    if (is("bpf"))
        return make_map();
    if (is("secret"))
        return (int)syscall(447, 0);
    if (is("ruleset"))
        return make_ruleset();
    if (is("datagrams"))
        return receive_datagrams();
    if (is("routes"))
        return socket(AF_NETLINK, SOCK_RAW, 0);
    if (is("path"))
        return listen_at_path();
    if (is("tunnel"))
        return open("/dev/net/tun", O_RDWR);
    if (is("io_uring"))
        return (int)syscall(SYS_io_uring_setup, 4, &(struct io_uring_params){0});
    if (is("inotify"))
        return inotify_init();
    if (is("fanotify"))
        return fanotify_init(FAN_CLASS_NOTIF, O_RDONLY);
    if (is("pidfd"))
        return (int)syscall(SYS_pidfd_open, getppid(), 0);
    if (is("userfaultfd"))
        return (int)syscall(SYS_userfaultfd, 1);
    if (is("queue"))
        return make_queue();
    if (is("queue_twice"))
        return open_twice();
    if (is("queue_notify"))
        return make_notifying();
    if (is("namespace"))
        return open("/proc/self/ns/uts", O_RDONLY);
    if (is("terminal"))
        return openpty(&made, &other, NULL, NULL, NULL) == 0 ? made : -1;
    if (is("listener"))
        return listen_to_itself();
    if (is("connection"))
        return connect_to_itself();
    if (is("process"))
        return open("/proc/1/stat", O_RDONLY);
    if (is("directory"))
        return open_removed();
    if (is("fifo"))
        return open_fifo();
    if (is("child"))
        return pipe_to_child();
    if (is("packets"))
        return pipe2((int[2]){-1, -1}, O_DIRECT);
    if (is("aio"))
        return await_nothing();
    if (is("aio_raw"))
        return set_up_raw();
    if (is("semaphores"))
        return make_undone();
    if (is("messages"))
        return share_queue();
    if (is("opened"))
        return open_set();
    if (is("thread"))
        return make_raw_thread();
    if (is("group"))
        return setegid(1);
    if (is("hostname"))
        return unshare(CLONE_NEWUTS);
    if (is("limit"))
        return setrlimit(RLIMIT_NOFILE, &(struct rlimit){256, kept.rlim_max});
    if (is("policy"))
        return bind_shared();
    if (is("working"))
        return mkdir("working", 0700) | chdir("working") | rmdir("../working");
    return -1;
}

static void remove_again(void)
{
    if (is("aio") || is("aio_raw"))
        MUST(syscall(SYS_io_destroy, context) == 0);
    else if (is("semaphores") || is("opened"))
        MUST(semctl(made, 0, IPC_RMID) == 0);
    else if (is("messages"))
        MUST(msgctl(made, IPC_RMID, NULL) == 0);
    else if (is("thread"))
        is_over = 1;
    else if (is("group"))
        MUST(setegid(0) == 0);
    else if (is("limit"))
        MUST(setrlimit(RLIMIT_NOFILE, &kept) == 0);
    else if (is("working"))
        MUST(chdir("..") == 0);
    else if (made > 2)
        close(made), close(other);
    if (is("queue"))
        MUST(mq_unlink(queue_name) == 0);
    made = other = -1;
}

/* Opens, writes and closes a file; understudy undoes the change if a worker fails. */
static void append(void)
{
    char name[32];
    snprintf(name, sizeof name, "appended.%d", rank);
    int file = open(name, O_CREAT | O_APPEND | O_RDWR, 0644);
    MUST(file >= 0 && write(file, "x", 1) == 1);
    say("%ld bytes", (long)lseek(file, 0, SEEK_END));
    close(file);
}

static void content(void)
{
    if (rank == 1 && round_ == first)
        CHECK((made = make()) >= 0);
    append();
    meet();
    append();
    if (rank == 1 && made >= 0 && (round_ == last || round_ == rounds - 1))
        remove_again();
    meet();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    getrlimit(RLIMIT_NOFILE, &kept);
    if (argc > 3)
        kind = argv[3];
    if (argc > 4)
        last = atoi(argv[4]);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
