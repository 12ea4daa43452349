/* Large messages around a ring, each checked byte by byte: ring BYTES ROUNDS. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t value(uint64_t rank, uint64_t round, uint64_t index)
{
    uint64_t z = rank * 0x9e3779b97f4a7c15u + round * 0xbf58476d1ce4e5b9u + index;
    return z ^ (z >> 29);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    size_t count = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1 << 20) / sizeof(uint64_t);
    int rounds = argc > 2 ? atoi(argv[2]) : 20;
    uint64_t *out = malloc(count * sizeof *out), *in = malloc(2 * count * sizeof *in);
    int left = (rank + size - 1) % size, right = (rank + 1) % size, far = (rank + 2) % size, back = (rank + size - 2) % size;
    for (int round = 0; round < rounds; round++) {
        for (size_t i = 0; i < count; i++)
            out[i] = value(rank, round, i);
        memset(in, 0, 2 * count * sizeof *in);
        MPI_Request requests[4];
        MPI_Irecv(in, count, MPI_UINT64_T, left, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(in + count, count, MPI_UINT64_T, back, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Isend(out, count, MPI_UINT64_T, right, 1, MPI_COMM_WORLD, &requests[2]);
        MPI_Isend(out, count, MPI_UINT64_T, far, 2, MPI_COMM_WORLD, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        uint64_t wrong = 0, sum = 0, all[2], own[2];
        for (size_t i = 0; i < count; i++) {
            wrong += in[i] != value(left, round, i);
            wrong += in[count + i] != value(back, round, i);
            sum = sum * 31 + in[i] + in[count + i];
        }
        own[0] = wrong;
        own[1] = sum;
        MPI_Allreduce(own, all, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0) {
            printf("round %d: %llu wrong, sum %016llx\n", round, (unsigned long long)all[0], (unsigned long long)all[1]);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
