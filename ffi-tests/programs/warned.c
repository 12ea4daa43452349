/*
 * A program that ends well when it is told to, as batch systems do before they end a job: SIGTERM. Every rank has to be told.
 *
 *   warned [late]    late: the handler is set after MPI_Init
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* It says that it is ready, may be told, and goes on for a second in any case. */
enum { READY = 20, DONE = 500, LIMIT = 5000 };

static volatile sig_atomic_t told;

static void note(int signal)
{
    (void)signal;
    told = 1;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
    int rank, step, one, all = 0;

    if (argc == 1)
        sigaction(SIGTERM, &action, NULL);
    MPI_Init(&argc, &argv);
    if (argc > 1)
        sigaction(SIGTERM, &action, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (step = 0; step < LIMIT && !all; step++) {
        if (step == READY && rank == 0) {
            puts("ready");
            fflush(stdout);
        }
        usleep(2000);
        one = step > DONE && told;
        MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    if (rank == 0)
        puts(all ? "all were told" : "somebody was not told");
    MPI_Finalize();
    return 0;
}
