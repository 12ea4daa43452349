/*
 * A program that ends regularly after SIGTERM, which batch systems send before they end
 * a job. Every rank must get the signal.
 *
 *   warned [late]    late: the handler is set after MPI_Init
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/*
 * Step at which rank 0 prints that the program is ready, step after which the program
 * may end, and maximum number of steps.
 */
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
