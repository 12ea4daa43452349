/*
 * Messages of many sizes, of which every fourth is large, in several modes. One
 * in PERIOD is on its way during a collective, at which the state of the job may
 * be saved. Each message is checked, and rank 0 prints a digest of all messages.
 *
 *     traffic ROUNDS [BYTES of the largest message [named]]
 *
 * Without `named`, every third receive accepts any source.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PERIOD = 20 };

static uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ull;
    return x ^ x >> 33;
}

/* Prints the digests of all ranks. */
static void print_digest(long round, uint64_t digest, int rank)
{
    uint64_t all;
    MPI_Allreduce(&digest, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("round %ld: %016lx\n", round, (unsigned long)all);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long rounds = argc > 1 ? atol(argv[1]) : 1000;
    size_t most = (argc > 2 ? strtoul(argv[2], NULL, 10) : 1 << 20) / sizeof(uint64_t);
    int is_named = argc > 3 && strcmp(argv[3], "named") == 0;
    uint64_t *out = malloc(most * sizeof *out), *in = malloc(most * sizeof *in), digest = 0;
    for (long round = 0; round < rounds; round++) {
        uint64_t seed = mix(round * 977 + 5);
        size_t count = 1 + (round % 4 == 3 ? seed % (most - 1) : seed % 2000 % (most - 1));
        int distance = size > 1 ? 1 + mix(seed) % (size - 1) : 0;
        int to = (rank + distance) % size, from = (rank - distance + size) % size;
        int tag = round & 1023;
        for (size_t i = 0; i < count; i++)
            out[i] = mix(seed + to + i);
        int is_cut = round % PERIOD == PERIOD - 1;
        MPI_Request requests[2];
        if (!is_cut)
            MPI_Irecv(in, count, MPI_UINT64_T, is_named || round % 3 ? from : MPI_ANY_SOURCE,
                      tag, MPI_COMM_WORLD, &requests[0]);
        if (round % 5 == 2)
            MPI_Issend(out, count, MPI_UINT64_T, to, tag, MPI_COMM_WORLD, &requests[1]);
        else
            MPI_Isend(out, count, MPI_UINT64_T, to, tag, MPI_COMM_WORLD, &requests[1]);
        if (is_cut) {
            print_digest(round, digest, rank);
            MPI_Irecv(in, count, MPI_UINT64_T, from, tag, MPI_COMM_WORLD, &requests[0]);
        }
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (size_t i = 0; i < count; i++)
            if (in[i] != mix(seed + rank + i)) {
                printf("WRONG: rank %d, round %ld, word %zu of %zu\n", rank, round, i, count);
                fflush(stdout);
                MPI_Abort(MPI_COMM_WORLD, 4);
            }
        digest = mix(digest ^ in[count - 1] ^ in[count / 2]);
    }
    MPI_Finalize();
    return 0;
}
