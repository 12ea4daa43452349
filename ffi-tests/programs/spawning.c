/* Spawns processes, round by round, which compute for their parents (MPI 4.1, 11.8).
 *
 *   spawning ROUNDS STEPS [connected | freed | late | aborts | lingers | thread]
 *
 * Each round spawns two processes (in odd rounds of two programs, by
 * MPI_Comm_spawn_multiple). It exchanges STEPS messages with them, some of them in a
 * merged communicator and in parts of it that are defined by groups. Then it
 * disconnects; a group of the exited processes stays. Spawned processes and rank 0
 * print their values.
 *
 * The third argument changes the last round:
 *
 * - `connected`: the spawned processes are not disconnected before MPI_Finalize
 * - `freed`: as `connected`, but the communicator is freed, and the workers compute for
 *   a long time
 * - `late`: after the disconnection, the spawned processes still have work to do
 * - `aborts`: a spawned process ends the job
 * - `lingers`: as `connected`, and the spawned processes call MPI_Finalize late
 *
 * With `thread`, another thread than the main one spawns and computes in all rounds, and
 * MPI_THREAD_MULTIPLE is requested. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHILDREN = 2 };

/* Work of both sides: parents send numbers, and children send back the results. */
static double converse(MPI_Comm inter, int steps, double value)
{
    int rank, others;
    MPI_Comm_rank(inter, &rank);
    MPI_Comm_remote_size(inter, &others);
    for (int step = 0; step < steps && rank < CHILDREN; step++) {
        double heard;
        MPI_Request request;
        MPI_Isend(&value, 1, MPI_DOUBLE, rank, step, inter, &request);
        MPI_Recv(&heard, 1, MPI_DOUBLE, rank, step, inter, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        value = 0.75 * value + 0.25 * heard + (rank + step) % others;
    }
    return value;
}

/* The group of the other side in the last round. */
static MPI_Group others = MPI_GROUP_NULL;

/* A number that depends on size, rank and translated ranks of a group. */
static double told(MPI_Group group, MPI_Group within)
{
    int size, rank, from[8], to[8];
    MPI_Group_size(group, &size);
    MPI_Group_rank(group, &rank);
    double value = size + (rank == MPI_UNDEFINED ? 100 : rank);
    for (int i = 0; i < size; i++)
        from[i] = i;
    MPI_Group_translate_ranks(group, size, from, within, to);
    for (int i = 0; i < size; i++)
        value += to[i] == MPI_UNDEFINED ? 1000 : (i + 1) * to[i];
    return value;
}

/* The sum over the members of a communicator. */
static double summed(MPI_Comm *comm, double value)
{
    double sum = 0;
    if (*comm == MPI_COMM_NULL)
        return sum;
    MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, *comm);
    MPI_Comm_free(comm);
    return sum;
}

/* Groups of both sides, and communicators that are made of them. */
static double grouped(MPI_Comm inter, MPI_Comm all, double value)
{
    MPI_Group here, both, joined, even, odd;
    MPI_Comm of_even, of_odd = MPI_COMM_NULL;
    int size, rank, relation;
    MPI_Comm_group(inter, &here);
    MPI_Comm_remote_group(inter, &others);
    MPI_Comm_group(all, &both);
    MPI_Group_union(here, others, &joined);
    MPI_Group_compare(joined, both, &relation);
    MPI_Comm_size(all, &size);
    int range[1][3] = {{0, size - 1, 2}};
    MPI_Group_range_incl(both, 1, range, &even);
    MPI_Group_difference(both, even, &odd);
    MPI_Comm_create(all, even, &of_even);
    MPI_Group_rank(odd, &rank);
    if (rank != MPI_UNDEFINED)
        MPI_Comm_create_group(all, odd, 7, &of_odd);
    double sum = summed(&of_even, value) + 2 * summed(&of_odd, value);
    sum += told(others, both) + told(here, both) + (relation == MPI_IDENT ? 1 : relation == MPI_SIMILAR ? 2 : 3);
    MPI_Group *groups[] = {&here, &both, &joined, &even, &odd};
    for (int i = 0; i < 5; i++)
        MPI_Group_free(groups[i]);
    return sum;
}

static double merged(MPI_Comm inter, int is_high, double value)
{
    MPI_Comm all, copy;
    double sum;
    MPI_Intercomm_merge(inter, is_high, &all);
    MPI_Comm_dup(all, &copy);
    MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, copy);
    sum += grouped(inter, all, value);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&all);
    return sum;
}

/* A number that depends on the group of the other side after its exit. */
static double remembered(void)
{
    MPI_Group world;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    double value = told(others, world);
    MPI_Group_free(&world);
    MPI_Group_free(&others);
    return value;
}

static int child(MPI_Comm parent, int argc, char **argv)
{
    int steps = atoi(argv[2]), rank, size, round = atoi(argv[3]), *program, is_set;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &program, &is_set);
    double value = converse(parent, steps, 1 + rank + round);
    if (argc > 4 && strcmp(argv[4], "aborts") == 0 && rank == 1)
        MPI_Abort(MPI_COMM_WORLD, 7);
    double sum = merged(parent, 1, value);
    printf("child %d of %d of program %d of round %d: %.15e, %.15e\n", rank, size, is_set ? *program : -1, round, value, sum);
    fflush(stdout);
    if (argc <= 4)
        MPI_Comm_disconnect(&parent);
    else if (strcmp(argv[4], "freed") == 0)
        MPI_Comm_free(&parent);
    else if (strcmp(argv[4], "lingers") == 0)
        sleep(20);
    else if (strcmp(argv[4], "late") == 0) {
        MPI_Comm_disconnect(&parent);
        usleep(400000);
        printf("child %d of round %d has parted\n", rank, round);
    }
    MPI_Finalize();
    return 0;
}

static void spawn_rounds(char **argv, const char *way)
{
    int rounds = atoi(argv[1]), steps = atoi(argv[2]), stays = way != NULL, rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double value = rank;
    for (int round = 0; round < rounds; round++) {
        char number[16];
        snprintf(number, sizeof number, "%d", round);
        int is_last = stays && round == rounds - 1;
        char *arguments[] = {"child", argv[2], number, is_last ? argv[3] : NULL, NULL};
        char **both[] = {arguments, arguments};
        char *commands[] = {argv[0], argv[0]};
        int each[] = {1, 1}, codes[CHILDREN];
        MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
        MPI_Comm inter;
        if (round % 2 == 0)
            MPI_Comm_spawn(argv[0], arguments, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes);
        else
            MPI_Comm_spawn_multiple(2, commands, both, each, infos, 1, MPI_COMM_WORLD, &inter, codes);
        value = converse(inter, steps, value);
        value += merged(inter, 0, value);
        int is_freed = is_last && strcmp(way, "freed") == 0;
        if (!is_last || strcmp(way, "late") == 0)
            MPI_Comm_disconnect(&inter);
        else if (is_freed)
            MPI_Comm_free(&inter);
        /* Computation between two rounds. */
        for (int step = 0; step < (is_freed ? 200 : 20); step++) {
            usleep(is_freed ? 20000 : 0);
            double sum;
            MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            value = 0.9 * value + 0.01 * sum;
        }
        value += remembered();
        if (rank == 0) {
            printf("round %d: %.15e\n", round, value);
            fflush(stdout);
        }
    }
}

static void *in_a_thread(void *argv)
{
    spawn_rounds(argv, NULL);
    return NULL;
}

int main(int argc, char **argv)
{
    int has_thread = argc > 3 && strcmp(argv[3], "thread") == 0, level;
    MPI_Init_thread(&argc, &argv, has_thread ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return child(parent, argc, argv);
    if (has_thread) {
        pthread_t thread;
        pthread_create(&thread, NULL, in_a_thread, argv);
        pthread_join(thread, NULL);
    } else {
        spawn_rounds(argv, argc > 3 ? argv[3] : NULL);
    }
    MPI_Finalize();
    return 0;
}
