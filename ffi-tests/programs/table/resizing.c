/*
 * A mapping that is repeatedly enlarged, reduced and moved by mremap(2), which only
 * works on a single mapping of the kernel.
 */
#define _GNU_SOURCE
#include "../check.h"
#include <sys/mman.h>

enum { PAGE = 4096, WORDS = PAGE / sizeof(long), STEPS = 12 };

static long *map;
static size_t pages = 8;
static int step;

static void resize(size_t next)
{
    long *moved = mremap(map, pages * PAGE, next * PAGE, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED) {
        perror("mremap");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    map = moved;
    for (size_t page = pages; page < next; page++)
        map[page * WORDS] = step;
    pages = next;
}

static void content(void)
{
    for (int end = step + STEPS; step < end; step++) {
        long own = 0, sum = 0;
        resize(4 + (step * 37 + rank) % 90);
        for (size_t page = 0; page < pages; page++)
            own += map[page * WORDS] * (long)(page + 1);
        map[(step % pages) * WORDS] += own % 7;
        MPI_Allreduce(&own, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        map[0] += sum % 11;
        say("step %d: %ld", step, sum);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    map = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* Blocks the first enlargement, so that the mapping moves. */
    MUST(mmap((char *)map + pages * PAGE, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
         != MAP_FAILED);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
