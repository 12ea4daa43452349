/* Programs annotated with understudy.h: marks WAY ROUNDS.
 *
 * A ring without collectives, whose messages change a value:
 *
 * - `points` (the default): a point for checkpoints in every round
 * - `held`: as `points`, but checkpoints are inhibited for some rounds
 * - `wanted`, `slow`: a checkpoint is requested in some rounds; `slow` pauses in each
 * - another WAY: no annotation
 *
 * Two fields, each computed from the other, without messages:
 *
 * - `discarded`: the old field is declared as not needed
 * - `kept`: no field is declared
 * - `misuse`: the old field is declared, and read all the same */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <understudy.h>
#include <unistd.h>

/* Rounds between two requested checkpoints, and rounds with inhibited checkpoints. */
enum { EVERY = 100, HELD = 300 };

/* Two fields of 4 MiB each; each round computes one from the other. */
enum { WORDS = 1 << 20 };

/* Declares the old field as not needed; only `misuse` reads it afterwards. */
static unsigned fields(int rounds, const char *way)
{
    unsigned *new = calloc(WORDS, sizeof *new), *old = calloc(WORDS, sizeof *old), sum = 0;
    for (int round = 1; round <= rounds; round++) {
        for (int i = 0; i < WORDS; i++)
            new[i] = old[i] * 1664525u + (unsigned)(i + round);
        if (strcmp(way, "kept"))
            understudy_discard(old, WORDS * sizeof *old);
        understudy_point();
        if (!strcmp(way, "misuse"))
            sum += old[WORDS / 2];
        unsigned *swap = new;
        new = old;
        old = swap;
    }
    for (int i = 0; i < WORDS; i++)
        sum = sum * 31 + old[i];
    free(new);
    free(old);
    return sum;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    const char *way = argc > 1 ? argv[1] : "points";
    int rounds = argc > 2 ? atoi(argv[2]) : 1000;
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    unsigned value = rank, from;
    long long first = -1, last = -1;
    if (!strcmp(way, "discarded") || !strcmp(way, "kept") || !strcmp(way, "misuse")) {
        unsigned sum = fields(rounds, way);
        if (rank == 0)
            printf("fields: %08x\n", sum);
        rounds = 0;
    }
    for (int round = 1; round <= rounds; round++) {
        MPI_Sendrecv(&value, 1, MPI_UNSIGNED, right, 0, &from, 1, MPI_UNSIGNED, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        value = value * 1664525u + from + round;
        if (!strcmp(way, "slow"))
            usleep(500);
        if (!strcmp(way, "wanted") || !strcmp(way, "slow")) {
            if (round % EVERY == 0)
                understudy_checkpoint();
        } else if (!strcmp(way, "held")) {
            if (round == HELD) {
                understudy_hold();
                first = understudy_ask().checkpoint;
            }
            if (round == 2 * HELD) {
                last = understudy_ask().checkpoint;
                understudy_release();
            }
            understudy_point();
        } else if (!strcmp(way, "points")) {
            understudy_point();
        }
        if (rank == 0 && round % EVERY == 0) {
            printf("round %d: %08x\n", round, value);
            fflush(stdout);
        }
    }
    understudy_state state = understudy_ask();
    fprintf(stderr, "rank %d: held %lld, checkpoint %lld, protected %d, recoveries %d, substitute %d, cost %d\n", rank, last - first,
            state.checkpoint, state.is_protected, state.recoveries, state.is_substitute, state.cost > 0);
    MPI_Finalize();
    return 0;
}
