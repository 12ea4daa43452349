/* A table that all ranks have, a vector that all gather, and data of each rank.
 *
 *   replicated TABLE OWN ROUNDS PAUSE    (in KiB and ms)
 *
 * Rank 0 reads the table and broadcasts it once. Each round changes the rank's data by
 * table and vector, and gathers the vector again. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Words of the vector that each rank computes. */
enum { PART = 1 << 14 };

static unsigned mixed(unsigned sum, unsigned word)
{
    return (sum ^ word ^ word >> 15) * 16777619u;
}

static unsigned *make(size_t bytes)
{
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    size_t table_words = (argc > 1 ? atol(argv[1]) : 4096) * 256;
    size_t own_words = (argc > 2 ? atol(argv[2]) : 1024) * 256;
    int rounds = argc > 3 ? atoi(argv[3]) : 40;
    int pause = argc > 4 ? atoi(argv[4]) : 0;
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    unsigned *table = make(table_words * sizeof *table);
    unsigned *own = make(own_words * sizeof *own);
    unsigned *vector = make((size_t)size * PART * sizeof *vector);
    unsigned *part = make(PART * sizeof *part);
    if (rank == 0)
        for (size_t i = 0; i < table_words; i++)
            table[i] = (unsigned)i * 2654435761u + (unsigned)(i >> 7);
    MPI_Bcast(table, (int)table_words, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    for (size_t i = 0; i < own_words; i++)
        own[i] = (unsigned)i * 40503u + rank;
    for (int round = 1; round <= rounds; round++) {
        for (size_t i = 0; i < own_words; i++)
            own[i] = own[i] * 1664525u + table[(i * 37 + round) % table_words] + vector[i % PART] + rank;
        for (int i = 0; i < PART; i++)
            part[i] = own[(size_t)i * 13 % own_words] ^ (unsigned)round;
        MPI_Allgather(part, PART, MPI_UNSIGNED, vector, PART, MPI_UNSIGNED, MPI_COMM_WORLD);
        if (pause > 0)
            usleep(pause * 1000);
        if (rank == 0 && round % 5 == 0) {
            unsigned sum = 0;
            for (int i = 0; i < size * PART; i++)
                sum = mixed(sum, vector[i]);
            printf("round %d: %08x\n", round, sum);
            fflush(stdout);
        }
    }
    unsigned sum = rank, all = 0;
    for (size_t i = 0; i < table_words; i++)
        sum = mixed(sum, table[i]);
    for (size_t i = 0; i < own_words; i++)
        sum = mixed(sum, own[i]);
    MPI_Reduce(&sum, &all, 1, MPI_UNSIGNED, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("all: %08x\n", all);
    MPI_Finalize();
    return 0;
}
