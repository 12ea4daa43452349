/*
 * NUMA policies of ranges (mbind) in private memory and in the heap, set before and
 * during the rounds, changed and reverted. Where mbind is not permitted there are none,
 * and the output is equal.
 */
#define _GNU_SOURCE
#include "../check.h"
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PAGE = 4096, PAGES = 16, AREAS = 2 };

static char *areas[AREAS];
static int wanted[AREAS][PAGES];
static int is_permitted;

static void bind_pages(int area, int first, int count, int policy)
{
    unsigned long nodes = policy == MPOL_DEFAULT || policy == MPOL_LOCAL ? 0 : 1;
    long rc = syscall(SYS_mbind, areas[area] + first * PAGE, (long)count * PAGE, policy, &nodes, 64, 0);
    MUST(!is_permitted || rc == 0);
    for (int page = first; page < first + count; page++)
        wanted[area][page] = policy;
}

static void change(void)
{
    /* A rank that is rolled back to a checkpoint has changed this page since. */
    bind_pages(0, 12, 1, round_ % 2 ? MPOL_DEFAULT : MPOL_BIND);
    if (round_ == 3)
        bind_pages(0, 0, 3, MPOL_PREFERRED);
    if (round_ == 4)
        bind_pages(1, 6, 4, MPOL_BIND);
    if (round_ == 6) {
        bind_pages(0, 1, 1, MPOL_DEFAULT);
        bind_pages(1, 7, 2, MPOL_INTERLEAVE);
    }
    if (round_ == 9) {
        /* A range that is mapped again has no policy. */
        MUST(munmap(areas[0] + 4 * PAGE, 4 * PAGE) == 0);
        MUST(mmap(areas[0] + 4 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
             == areas[0] + 4 * PAGE);
        memset(areas[0] + 4 * PAGE, 9, 4 * PAGE);
        for (int page = 4; page < 8; page++)
            wanted[0][page] = MPOL_DEFAULT;
    }
}

static void look(void)
{
    for (int area = 0; area < AREAS; area++)
        for (int page = 0; page < PAGES; page++) {
            int policy = -1;
            unsigned long nodes[16] = {0};
            char *at = areas[area] + page * PAGE;
            long rc = syscall(SYS_get_mempolicy, &policy, nodes, 8 * sizeof nodes, at, MPOL_F_ADDR);
            int is_as_wanted = rc == 0 && policy == wanted[area][page] && nodes[0] == (policy != MPOL_DEFAULT);
            MUST(!is_permitted || is_as_wanted);
            say("page %d of area %d: policy %d, %d", page, area, wanted[area][page], *at);
        }
}

static void content(void)
{
    look();
    meet();
    look();
    change();
    meet();
    look();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    /* On a page of the heap, between other pages in use. */
    areas[1] = aligned_alloc(PAGE, PAGES * PAGE);
    areas[0] = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(areas[0] != MAP_FAILED && areas[1] != NULL);
    for (int area = 0; area < AREAS; area++)
        memset(areas[area], area + 1, PAGES * PAGE);
    is_permitted = syscall(SYS_mbind, areas[0], PAGE, MPOL_DEFAULT, NULL, 0, 0) == 0;
    bind_pages(0, 2, 8, MPOL_BIND);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
