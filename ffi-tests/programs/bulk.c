/*
 * Large messages in a ring, in both directions at once.
 *
 *     bulk [rounds [pause in milliseconds [MiB of each message]]]
 *
 * Received bytes are checked one by one. They are checked again after a
 * collective and before they are overwritten, so that late writes are detected.
 */
#include "check.h"

static unsigned char *from[2], *to[2];
static size_t bytes;

/* Fills a message with bytes that depend on round, sender (`of`) and direction. */
static void fill(unsigned char *data, int round, int of, int direction)
{
    uint64_t *words = (uint64_t *)data, state = 1000003u * round + 101u * of + direction;
    for (size_t i = 0; i < bytes / 8; i++)
        words[i] = state + i * 0x9e3779b97f4a7c15u;
}

static int is_filled(const unsigned char *data, int round, int of, int direction)
{
    const uint64_t *words = (const uint64_t *)data;
    uint64_t state = 1000003u * round + 101u * of + direction;
    for (size_t i = 0; i < bytes / 8; i++)
        if (words[i] != state + i * 0x9e3779b97f4a7c15u)
            return 0;
    return 1;
}

static void content(void)
{
    int neighbour[2] = {(rank + size - 1) % size, (rank + 1) % size};
    MPI_Request requests[4];
    for (int i = 0; i < 2; i++) {
        CHECK(is_filled(to[i], round_ - 1, neighbour[i], i));
        fill(from[i], round_, rank, i);
    }
    meet();
    for (int i = 0; i < 2; i++) {
        MPI_Irecv(to[i], (int)bytes, MPI_BYTE, neighbour[i], i, MPI_COMM_WORLD, &requests[i]);
        MPI_Isend(from[i], (int)bytes, MPI_BYTE, neighbour[1 - i], i, MPI_COMM_WORLD, &requests[2 + i]);
    }
    MUST(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
    for (int i = 0; i < 2; i++)
        CHECK(is_filled(to[i], round_, neighbour[i], i));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    bytes = (size_t)(argc > 3 ? atoi(argv[3]) : 32) << 20;
    for (int i = 0; i < 2; i++) {
        from[i] = malloc(bytes);
        to[i] = malloc(bytes);
        fill(to[i], -1, (rank + (i ? 1 : size - 1)) % size, i);
    }
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
