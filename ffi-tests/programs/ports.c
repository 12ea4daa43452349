/*
 * Connections between processes of a job (MPI 4.1, 11.8): ports, names, accept and
 * connect.
 *
 * Names of ports differ from run to run, so they are not recorded.
 */
#include "check.h"
#include "../../interpose/include/understudy.h"
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

static char kept[MPI_MAX_PORT_NAME];
/* Number of polls of a rank that is late. */
static int looks;

static int class_of(int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

/* Both groups exchange their ranks, and disconnect. */
static void talk(const char *what, MPI_Comm inter)
{
    int here, there, own, mine[2] = {rank, round_}, theirs[2 * 16];
    MPI_Comm_size(inter, &here);
    MPI_Comm_remote_size(inter, &there);
    MPI_Comm_rank(inter, &own);
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    MPI_Allgather(mine, 2, MPI_INT, theirs, 2, MPI_INT, inter);
    int sum = 0;
    for (int i = 0; i < there; i++)
        sum = sum * 10 + theirs[2 * i] + theirs[2 * i + 1];
    say("%s: rank %d of %d, with %d: %d", what, own, here, there, sum);
}

/* The order of several connecting processes is not recorded. */
static void talk_of(int is_said, MPI_Comm inter)
{
    int mine = 100 * round_ + rank, theirs = -1;
    MPI_Sendrecv(&mine, 1, MPI_INT, 0, 9, &theirs, 1, MPI_INT, 0, 9, inter, MPI_STATUS_IGNORE);
    MUST(theirs / 100 == round_);
    if (is_said || rank != 0)
        say("connected to %d", theirs);
    MPI_Comm_free(&inter);
}

/* A port of the last rank serves all others in turn; one of them is late. */
static void in_turn(void)
{
    MPI_Comm inter;
    int last = size - 1;
    if (rank == last) {
        char port[MPI_MAX_PORT_NAME];
        CHECK(MPI_Open_port(MPI_INFO_NULL, port) == MPI_SUCCESS);
        CHECK(MPI_Publish_name("turn", MPI_INFO_NULL, port) == MPI_SUCCESS);
        CHECK(class_of(MPI_Publish_name("turn", MPI_INFO_NULL, port)) == MPI_ERR_SERVICE);
        meet();
        int sum = 0;
        for (int i = 0; i < last; i++) {
            int who = -1;
            MUST(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter) == MPI_SUCCESS);
            MPI_Recv(&who, 1, MPI_INT, 0, 3, inter, MPI_STATUS_IGNORE);
            MPI_Send(&who, 1, MPI_INT, 0, 4, inter);
            sum += who;
            MPI_Comm_disconnect(&inter);
        }
        say("served %d", sum);
        CHECK(MPI_Unpublish_name("turn", MPI_INFO_NULL, port) == MPI_SUCCESS);
        CHECK(class_of(MPI_Unpublish_name("turn", MPI_INFO_NULL, port)) == MPI_ERR_SERVICE);
        CHECK(MPI_Close_port(port) == MPI_SUCCESS);
        memcpy(kept, port, sizeof kept);
        meet();
    } else {
        char port[MPI_MAX_PORT_NAME];
        int who = rank * 7 + round_, back = -1;
        meet();
        CHECK(MPI_Lookup_name("turn", MPI_INFO_NULL, port) == MPI_SUCCESS);
        if (rank == 0)
            usleep(1000 * pause_ms);
        MUST(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter) == MPI_SUCCESS);
        MPI_Send(&who, 1, MPI_INT, 0, 3, inter);
        MPI_Recv(&back, 1, MPI_INT, 0, 4, inter, MPI_STATUS_IGNORE);
        CHECK(back == who);
        MPI_Comm_disconnect(&inter);
        meet();
        CHECK(class_of(MPI_Lookup_name("turn", MPI_INFO_NULL, port)) == MPI_ERR_NAME);
    }
    meet();
    MPI_Bcast(kept, sizeof kept, MPI_CHAR, last, MPI_COMM_WORLD);
    /* Closed, or never opened. */
    CHECK(class_of(MPI_Comm_connect(kept, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter)) == MPI_ERR_PORT);
    CHECK(class_of(MPI_Comm_connect("nowhere", MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter)) == MPI_ERR_PORT);
    CHECK(class_of(MPI_Comm_accept(kept, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter)) == MPI_ERR_PORT);
    CHECK(class_of(MPI_Lookup_name("nobody", MPI_INFO_NULL, kept)) == MPI_ERR_NAME);
    meet();
}

/* The job in two halves; the connection stays while others are made. */
static void halves(void)
{
    static MPI_Comm inter = MPI_COMM_NULL;
    MPI_Comm half, both;
    char port[MPI_MAX_PORT_NAME] = "";
    int side = rank >= size / 2, root = side ? 0 : size / 2 - 1, sum;
    MPI_Comm_split(MPI_COMM_WORLD, side, 0, &half);
    MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN);
    if (rank == size / 2 - 1) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Send(port, sizeof port, MPI_CHAR, size / 2, 5, MPI_COMM_WORLD);
    }
    if (rank == size / 2)
        MPI_Recv(port, sizeof port, MPI_CHAR, size / 2 - 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (inter != MPI_COMM_NULL) {
        talk("before", inter);
        MPI_Comm_free(&inter);
    }
    meet();
    if (side && rank == size / 2)
        usleep(2000 * pause_ms);
    if (side)
        MUST(MPI_Comm_connect(port, MPI_INFO_NULL, root, half, &inter) == MPI_SUCCESS);
    else
        MUST(MPI_Comm_accept(port, MPI_INFO_NULL, root, half, &inter) == MPI_SUCCESS);
    meet();
    talk("halves", inter);
    MPI_Intercomm_merge(inter, side, &both);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, both);
    say("together %d", sum);
    MPI_Comm_free(&both);
    /* An error of the root is an error of its whole side. */
    if (side)
        CHECK(class_of(MPI_Comm_connect("nowhere", MPI_INFO_NULL, root, half, &both)) == MPI_ERR_PORT);
    if (rank == size / 2 - 1)
        MPI_Close_port(port);
    MPI_Comm_free(&half);
    meet();
}

/* A port that is closed while a process waits to connect. */
static void closed(void)
{
    MPI_Comm inter;
    char port[MPI_MAX_PORT_NAME] = "";
    if (rank == 0)
        MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank == 1)
        CHECK(class_of(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter)) == MPI_ERR_PORT);
    if (rank == 0) {
        usleep(1000 * pause_ms);
        CHECK(MPI_Close_port(port) == MPI_SUCCESS);
        CHECK(class_of(MPI_Close_port(port)) == MPI_ERR_PORT);
    }
    meet();
}

/*
 * One rank is late. The others wait for this rank outside of collectives: to be accepted,
 * to accept, and for a message.
 */
static void late(void)
{
    MPI_Comm inter;
    char port[MPI_MAX_PORT_NAME] = "";
    int flag, one = round_;
    if (rank == 0)
        MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int late = 0; late < 2; late++) {
        if (rank == late)
            for (int i = 0; i < looks; i++) {
                MPI_Iprobe(MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
                usleep(1000);
            }
        if (rank == 0) {
            for (int i = 1; i < (late ? 2 : size); i++) {
                MUST(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter) == MPI_SUCCESS);
                talk_of(late, inter);
            }
        } else if (late == 0 || rank == 1) {
            MUST(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter) == MPI_SUCCESS);
            talk_of(late, inter);
            for (int i = 2; late && i < size; i++)
                MPI_Send(&one, 1, MPI_INT, i, 6, MPI_COMM_WORLD);
        } else {
            MPI_Recv(&one, 1, MPI_INT, 1, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            say("told %d", one);
        }
        meet();
    }
    if (rank == 0)
        MPI_Close_port(port);
}

/* An address by which other hosts reach this one, or else the loopback address. */
static struct in_addr own_address(void)
{
    struct in_addr found = {htonl(INADDR_LOOPBACK)};
    struct ifaddrs *all = NULL;
    MUST(getifaddrs(&all) == 0);
    for (struct ifaddrs *each = all; each; each = each->ifa_next)
        if (each->ifa_addr && each->ifa_addr->sa_family == AF_INET && each->ifa_flags & IFF_UP && !(each->ifa_flags & IFF_LOOPBACK))
            found = ((struct sockaddr_in *)each->ifa_addr)->sin_addr;
    freeifaddrs(all);
    return found;
}

/*
 * The ends of a socket become two groups. No checkpoint is taken while the socket is
 * open, since another process would not have it.
 */
static void joined(void)
{
    MPI_Comm inter;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = own_address()};
    socklen_t length = sizeof address;
    MPI_Pcontrol(UNDERSTUDY_HOLD);
    meet();
    if (rank < 2) {
        int end = socket(AF_INET, SOCK_STREAM, 0);
        if (rank == 0) {
            int listening = end;
            MUST(bind(listening, (struct sockaddr *)&address, length) == 0 && listen(listening, 1) == 0);
            MUST(getsockname(listening, (struct sockaddr *)&address, &length) == 0);
            MPI_Send(&address, sizeof address, MPI_BYTE, 1, 8, MPI_COMM_WORLD);
            end = accept(listening, NULL, NULL);
            close(listening);
        } else {
            MPI_Recv(&address, sizeof address, MPI_BYTE, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MUST(connect(end, (struct sockaddr *)&address, length) == 0);
        }
        for (int again = 0; again < 2; again++) {
            if (rank == again)
                usleep(1000 * pause_ms);
            MUST(MPI_Comm_join(end, &inter) == MPI_SUCCESS);
            if (again == 0)
                MPI_Comm_disconnect(&inter);
        }
        close(end);
    } else {
        CHECK(class_of(MPI_Comm_join(0, &inter)) == MPI_ERR_ARG);
    }
    MPI_Pcontrol(UNDERSTUDY_RELEASE);
    meet();
    if (rank < 2) {
        talk("joined", inter);
        MPI_Comm_free(&inter);
    }
    meet();
}

static void content(void)
{
    if (looks > 0)
        late();
    joined();
    in_turn();
    halves();
    closed();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    looks = argc > 3 ? atoi(argv[3]) : 0;
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
