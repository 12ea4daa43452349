/*
 * Puts and gets between fences, and accumulates under locks. Each result is
 * checked, and rank 0 prints the sum of all accumulates.
 *
 *     puts ROUNDS [WORDS of a window]
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { PERIOD = 20 };

static uint64_t value(long round, long index, int rank)
{
    return round * 1000003u + index * 7 + rank;
}

static void check(const uint64_t *words, long count, long round, int rank, const char *what)
{
    for (long i = 0; i < count; i++)
        if (words[i] != value(round, i, rank)) {
            printf("WRONG: %s of round %ld, word %ld\n", what, round, i);
            fflush(stdout);
            MPI_Abort(MPI_COMM_WORLD, 4);
        }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long rounds = argc > 1 ? atol(argv[1]) : 1000, count = argc > 2 ? atol(argv[2]) : 65536;
    uint64_t *window, *out = malloc(count * sizeof *out), *in = malloc(count * sizeof *in);
    uint64_t *sums = calloc(size, sizeof *sums);
    MPI_Win fenced, locked;
    MPI_Win_allocate(count * sizeof *window, sizeof *window, MPI_INFO_NULL, MPI_COMM_WORLD,
                     &window, &fenced);
    MPI_Win_create(sums, size * sizeof *sums, sizeof *sums, MPI_INFO_NULL, MPI_COMM_WORLD,
                   &locked);
    for (long round = 0; round < rounds; round++) {
        int distance = size > 1 ? 1 + round % (size - 1) : 0;
        int to = (rank + distance) % size, from = (rank - distance + size) % size;
        for (long i = 0; i < count; i++)
            out[i] = value(round, i, to);
        MPI_Win_fence(0, fenced);
        MPI_Put(out, count, MPI_UINT64_T, to, 0, count, MPI_UINT64_T, fenced);
        MPI_Win_fence(0, fenced);
        check(window, count, round, rank, "put");
        MPI_Get(in, count, MPI_UINT64_T, from, 0, count, MPI_UINT64_T, fenced);
        MPI_Win_fence(0, fenced);
        check(in, count, round, from, "get");
        uint64_t one = rank + 1;
        MPI_Win_lock(MPI_LOCK_SHARED, to, 0, locked);
        MPI_Accumulate(&one, 1, MPI_UINT64_T, to, rank, 1, MPI_UINT64_T, MPI_SUM, locked);
        MPI_Win_unlock(to, locked);
        if (round % PERIOD == PERIOD - 1) {
            MPI_Barrier(MPI_COMM_WORLD);
            uint64_t sum = 0, all;
            MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, locked);
            for (int i = 0; i < size; i++)
                sum += sums[i];
            MPI_Win_unlock(rank, locked);
            MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
            if (rank == 0) {
                uint64_t expected = (round + 1) * (uint64_t)size * (size + 1) / 2;
                const char *verdict = all == expected ? "right" : "WRONG";
                printf("round %ld: %lu %s\n", round, (unsigned long)all, verdict);
                fflush(stdout);
            }
        }
    }
    MPI_Win_free(&fenced);
    MPI_Win_free(&locked);
    MPI_Finalize();
    return 0;
}
