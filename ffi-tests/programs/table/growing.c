/*
 * Memory that grows at once, between two calls of MPI: in the middle of the run each
 * rank allocates far more than it had before, and changes all of it in every round.
 *
 *     growing [rounds [pause in milliseconds [MiB at first, MiB after growing]]]
 */
#include "../check.h"

#define WORDS_PER_MIB (1048576 / sizeof(uint64_t))

static size_t first_mib = 2, all_mib = 8;
static uint64_t *words;
static size_t length;

static void grow(size_t mib)
{
    size_t longer = mib * WORDS_PER_MIB;
    words = realloc(words, longer * sizeof *words);
    MUST(words != NULL);
    for (; length < longer; length++)
        words[length] = length * (rank + 1);
}

static void content(void)
{
    if (round_ == rounds / 2)
        grow(all_mib);
    uint64_t sum = 0;
    for (size_t i = 0; i < length; i++)
        sum += words[i] += round_ ^ i;
    meet();
    say("sum %llu", (unsigned long long)sum);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    start_rounds(argc, argv);
    if (argc > 4) {
        first_mib = atoi(argv[3]);
        all_mib = atoi(argv[4]);
    }
    grow(first_mib);
    all_rounds(content);
    MPI_Finalize();
    return 0;
}
