/*
 * fixed_port ROUNDS PAUSE PORT: rank 1 listens on this port of the loopback
 * address all the time.
 */
#include "check.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_port = htons(argc > 3 ? atoi(argv[3]) : 0);
    if (rank == 1)
        MUST(bind(listener, (void *)&address, sizeof address) == 0 && listen(listener, 1) == 0);
    run_rounds(argc, argv, meet);
    MPI_Finalize();
    return 0;
}
