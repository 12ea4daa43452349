/*
 * Common part of the programs: a transcript.
 *
 * Every rank records MPI's results. At the end of each round, all ranks meet in
 * a collective, and rank 0 prints a checksum of all transcripts. It prints the
 * transcripts of the first and of the last round, and of one with a failed
 * check. The output is equal in every run.
 *
 *     program [rounds [pause in milliseconds]]
 */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size, rounds = 40, pause_ms = 20;
static int round_;
static char transcript[1 << 16];
static int transcript_length, failures, points;

#define UNUSED __attribute__((unused))

UNUSED __attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int room = (int)sizeof transcript - transcript_length - 2;
    int length = vsnprintf(transcript + transcript_length, room, format, arguments);
    va_end(arguments);
    transcript_length += length < room ? length : room - 1;
    transcript[transcript_length++] = '\n';
    transcript[transcript_length] = 0;
}

UNUSED static void expect(int fine, const char *what, int line)
{
    if (fine) {
        say("ok %s", what);
    } else {
        say("FAILED %s (line %d)", what, line);
        failures++;
    }
}

#define CHECK(condition) expect((condition), #condition, __LINE__)
/* For checks in long loops: only failures are recorded. */
#define MUST(condition) do { if (!(condition)) expect(0, #condition, __LINE__); } while (0)

/* A collective over all ranks, at which the state of the job may be saved. */
UNUSED static void meet(void)
{
    int one = 1, all = 0;
    MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    points++;
    if (all != size)
        say("FAILED meeting %d: %d of %d", points, all, size);
}

static void start_rounds(int argc, char **argv)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1)
        rounds = atoi(argv[1]);
    if (argc > 2)
        pause_ms = atoi(argv[2]);
}

static void end_round(void)
{
    uint64_t sum = 14695981039346656037u;
    for (int i = 0; i < transcript_length; i++)
        sum = (sum ^ (unsigned char)transcript[i]) * 1099511628211u;
    uint64_t *sums = malloc(size * sizeof *sums);
    MPI_Gather(&sum, 1, MPI_UINT64_T, sums, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    int full = round_ == 0 || round_ == rounds - 1 || failures > 0, any_full;
    MPI_Allreduce(&full, &any_full, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("round %d:", round_);
        for (int i = 0; i < size; i++)
            printf(" %016llx", (unsigned long long)sums[i]);
        printf("\n");
    }
    free(sums);
    if (any_full) {
        char *theirs = malloc(sizeof transcript);
        for (int i = 0; i < size; i++) {
            if (i != 0 && rank == i)
                MPI_Send(transcript, transcript_length + 1, MPI_CHAR, 0, 32000, MPI_COMM_WORLD);
            if (rank == 0) {
                if (i != 0)
                    MPI_Recv(theirs, sizeof transcript, MPI_CHAR, i, 32000, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                printf("-- rank %d\n%s", i, i == 0 ? transcript : theirs);
            }
        }
        free(theirs);
    }
    fflush(stdout);
    transcript_length = 0;
    transcript[0] = 0;
    failures = 0;
    usleep(1000 * pause_ms);
}

/* Runs `content` in every round, after `start_rounds`. */
static void all_rounds(void (*content)(void))
{
    for (round_ = 0; round_ < rounds; round_++) {
        content();
        end_round();
    }
}

UNUSED static void run_rounds(int argc, char **argv, void (*content)(void))
{
    start_rounds(argc, argv);
    all_rounds(content);
}

/* The `main` of a program that consists of its content only. */
#define MAIN(content) \
    int main(int argc, char **argv) \
    { \
        MPI_Init(&argc, &argv); \
        run_rounds(argc, argv, content); \
        MPI_Finalize(); \
        return 0; \
    }

UNUSED static void say_status(const char *what, const MPI_Status *status, MPI_Datatype type)
{
    int count, cancelled;
    MPI_Get_count(status, type, &count);
    MPI_Test_cancelled(status, &cancelled);
    say("%s: source %d tag %d count %d cancelled %d", what, status->MPI_SOURCE, status->MPI_TAG, count, cancelled);
}

#endif
