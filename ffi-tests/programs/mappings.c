/*
 * mappings: memory is mapped and unmapped in every step, in a different way in each
 * rank: mappings are made, removed and emptied; the heap grows and shrinks.
 *
 *   mpirun -n 4 mappings STEPS [PAUSE_US]
 *
 * Each step depends on a sum over all memory and all ranks, which is printed now and
 * then: a wrong byte anywhere changes everything after it.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SLOTS 24
#define PAGE 4096

static struct { uint64_t *at; size_t pages; } maps[SLOTS];
static uint64_t *heap;
static size_t heap_words;
static int rank, size;

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static void must(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

static void change(uint64_t seed)
{
    int slot = seed % SLOTS;
    size_t pages = 1 + (seed >> 8) % (rank % 2 ? 90 : 40);
    if (!maps[slot].at) {
        maps[slot].at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        must(maps[slot].at != MAP_FAILED, "mmap");
        maps[slot].pages = pages;
        for (size_t page = 0; page < pages; page += 1 + seed % 3)
            maps[slot].at[page * PAGE / 8 + page % 512] = mix(seed + page);
        return;
    }
    switch ((seed >> 20) % 3) {
    case 0:
        must(munmap(maps[slot].at, maps[slot].pages * PAGE) == 0, "munmap");
        maps[slot].at = NULL;
        break;
    case 1:
        must(madvise(maps[slot].at, (maps[slot].pages + 1) / 2 * PAGE, MADV_DONTNEED) == 0, "madvise");
        break;
    default:
        for (size_t page = 0; page < maps[slot].pages; page++)
            maps[slot].at[page * PAGE / 8 + seed % 512] ^= mix(seed ^ page);
    }
}

static uint64_t sum(void)
{
    uint64_t all = heap_words;
    for (int slot = 0; slot < SLOTS; slot++)
        for (size_t word = 0; maps[slot].at && word < maps[slot].pages * PAGE / 8; word++)
            all = (all ^ maps[slot].at[word]) * 0x100000001b3u;
    for (size_t word = 0; word < heap_words; word++)
        all = (all ^ heap[word]) * 0x100000001b3u;
    return all;
}

int main(int argc, char **argv)
{
    long steps = argc > 1 ? atol(argv[1]) : 200, pause = argc > 2 ? atol(argv[2]) : 0;
    uint64_t seed = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (long step = 1; step <= steps; step++) {
        uint64_t own = mix(seed + (uint64_t)rank), all;
        for (int times = 0; times < 3; times++)
            change(own = mix(own));
        size_t words = 1000 + mix(own) % (20000 * (size_t)(1 + rank));
        heap = realloc(heap, words * 8);
        must(heap != NULL, "realloc");
        for (size_t word = heap_words; word < words; word++)
            heap[word] = mix(own + word);
        heap_words = words;
        heap[own % words]++;
        own = sum();
        MPI_Allreduce(&own, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
        seed = mix(all + (uint64_t)step);
        if (pause)
            usleep(pause);
        if (rank == 0 && step % 20 == 0) {
            printf("step %5ld  sum %016lx\n", step, (unsigned long)seed);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
