/* Iterates on memory of a device, which the host has no copy of: accelerator LIBCUDA ROUNDS [early|late|unused]. The driver is opened and
   initialised before MPI_Init, or in the middle of the run; with "unused" it is opened only. */
#include "accelerators/cuda.h"
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 20000 };
static void *library;
static CUdeviceptr data, extra;
static uint64_t host[COUNT];

#define FIND(name) ((CUresult(*)())dlsym(library, #name))
#define DRIVER(name, ...)                                                                                              \
    do {                                                                                                               \
        CUresult error = FIND(name)(__VA_ARGS__);                                                                      \
        if (error) {                                                                                                   \
            fprintf(stderr, #name " has failed: %d\n", error);                                                         \
            exit(5);                                                                                                   \
        }                                                                                                              \
    } while (0)

static void open_driver(const char *path)
{
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(5);
    }
}

static void begin(int rank)
{
    void *context;
    DRIVER(cuInit, 0u);
    DRIVER(cuCtxCreate_v2, &context, 0u, 0);
    DRIVER(cuMemAlloc_v2, &data, sizeof host);
    for (int i = 0; i < COUNT; i++)
        host[i] = (uint64_t)i * (rank + 1);
    DRIVER(cuMemcpyHtoD_v2, data, host, sizeof host);
}

static uint64_t step(int round)
{
    uint64_t sum = 0;
    DRIVER(standin_step, data, (size_t)COUNT, (uint64_t)round);
    /* Allocations come and go, too. */
    if (round % 7 == 3)
        DRIVER(cuMemAlloc_v2, &extra, (size_t)4096);
    if (round % 7 == 5)
        DRIVER(cuMemFree_v2, extra);
    DRIVER(cuMemcpyDtoH_v2, host, data, sizeof host);
    for (int i = 0; i < COUNT; i++)
        sum = 31 * sum + host[i];
    memset(host, 0, sizeof host);
    return sum;
}

int main(int argc, char **argv)
{
    int rounds = argc > 2 ? atoi(argv[2]) : 20, rank;
    const char *when = argc > 3 ? argv[3] : "early";
    int is_early = !strcmp(when, "early"), is_late = !strcmp(when, "late");
    if (!is_late)
        open_driver(argv[1]);
    if (is_early)
        begin(0);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int round = 0; round < rounds; round++) {
        uint64_t own = rank, all;
        if (is_late && round == rounds / 3) {
            open_driver(argv[1]);
            begin(rank);
        }
        usleep(10000);
        if (data)
            own += (rank + 1) * step(round);
        MPI_Allreduce(&own, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            printf("round %d: %016llx\n", round, (unsigned long long)all);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
