/* Iterates on device memory of which the host has no copy, by the CUDA driver's
 * interface.
 *
 *   accelerator LIBCUDA ROUNDS [early|late|unused]
 *
 * LIBCUDA is the driver of a real device, or its replacement in `accelerators`.
 * The program opens and initialises the driver before MPI_Init (early) or after a
 * third of the rounds (late), or only opens it (unused). */
#include "accelerators/cuda.h"
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 20000, THREADS = 128 };

/* x = 6364136223846793005 x + round, for all elements (PTX ISA 6.0). */
static const char kernel[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry step(.param .u64 p_data, .param .u32 p_count, .param .u64 p_round)\n{\n"
    "    .reg .pred beyond;\n    .reg .u32 index, count, thread, block, width;\n    .reg .u64 data, offset, x, round;\n"
    "    ld.param.u64 data, [p_data];\n    ld.param.u32 count, [p_count];\n    ld.param.u64 round, [p_round];\n"
    "    mov.u32 block, %ctaid.x;\n    mov.u32 width, %ntid.x;\n    mov.u32 thread, %tid.x;\n"
    "    mad.lo.u32 index, block, width, thread;\n    setp.ge.u32 beyond, index, count;\n    @beyond ret;\n"
    "    cvta.to.global.u64 data, data;\n    mul.wide.u32 offset, index, 8;\n    add.u64 data, data, offset;\n"
    "    ld.global.u64 x, [data];\n    mul.lo.u64 x, x, 6364136223846793005;\n    add.u64 x, x, round;\n"
    "    st.global.u64 [data], x;\n    ret;\n}\n";

static void *library, *module, *function;
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
    DRIVER(cuModuleLoadData, &module, kernel);
    DRIVER(cuModuleGetFunction, &function, module, "step");
    DRIVER(cuMemAlloc_v2, &data, sizeof host);
    for (int i = 0; i < COUNT; i++)
        host[i] = (uint64_t)i * (rank + 1);
    DRIVER(cuMemcpyHtoD_v2, data, host, sizeof host);
}

static uint64_t step(int round)
{
    uint64_t sum = 0;
    unsigned count = COUNT, blocks = (COUNT + THREADS - 1) / THREADS;
    uint64_t added = round;
    void *parameters[] = {&data, &count, &added};
    DRIVER(cuLaunchKernel, function, blocks, 1u, 1u, (unsigned)THREADS, 1u, 1u, 0u, (void *)NULL, parameters, (void *)NULL);
    /* Allocations are made and freed as well. */
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
