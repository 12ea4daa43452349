/*
 * resizing: a mapping that is made larger and smaller, and moved, again and
 * again by mremap(2), which only works on what is one mapping to the kernel.
 *
 *   mpirun -n 4 resizing STEPS
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE = 4096, WORDS = PAGE / sizeof(long) };

static long *resized(long *map, size_t from, size_t to, int step)
{
    long *moved = mremap(map, from * PAGE, to * PAGE, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED) {
        fprintf(stderr, "step %d: from %zu to %zu pages: ", step, from, to);
        perror("mremap");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return moved;
}

int main(int argc, char **argv)
{
    int rank;
    size_t pages = 8;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int steps = argc > 1 ? atoi(argv[1]) : 100;
    long *map = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* In the way of the first enlargement, so that the mapping moves. */
    void *wall = mmap((char *)map + pages * PAGE, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || wall == MAP_FAILED)
        MPI_Abort(MPI_COMM_WORLD, 1);

    for (int step = 1; step <= steps; step++) {
        size_t next = 4 + (step * 37 + rank) % 90;
        map = resized(map, pages, next, step);
        for (size_t page = pages; page < next; page++)
            map[page * WORDS] = step;
        pages = next;
        long own = 0, sum = 0;
        for (size_t page = 0; page < pages; page++)
            own += map[page * WORDS] * (long)(page + 1);
        map[(step % pages) * WORDS] += own % 7;
        MPI_Allreduce(&own, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        map[0] += sum % 11;
        if (rank == 0 && step % 100 == 0)
            printf("step %d: %ld\n", step, sum);
    }
    MPI_Finalize();
    return 0;
}
