/*
 * Memory that is used at the start of the program and then freed, between two
 * blocks that stay allocated.
 */
#include "check.h"

enum { LARGE = 48 << 20, SMALL = 1 << 20 };

static unsigned char *below, *above;

static void *filled(size_t bytes, int with)
{
    void *memory = malloc(bytes);
    if (memory == NULL)
        abort();
    return memset(memory, with, bytes);
}

static void content(void)
{
    for (int i = 0; i < 1000; i++)
        MUST(below[i] == 1 + round_ % 7 && above[i] == 3 + round_ % 7);
    memset(below, 1 + (round_ + 1) % 7, 1000);
    memset(above, 3 + (round_ + 1) % 7, 1000);
    meet();
    /* At the place of the freed memory. */
    unsigned char *again = filled(2 * SMALL, round_);
    meet();
    for (int i = 0; i < 2 * SMALL; i += 997)
        MUST(again[i] == (unsigned char)round_);
    free(again);
    meet();
    say("round %d", round_);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    below = filled(1000, 1);
    void *temporary = filled(LARGE, 2);
    above = filled(1000, 3);
    free(temporary);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
