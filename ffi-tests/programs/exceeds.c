/*
 * Exceeds a limit of its process before MPI_Init: each rank sets the limit
 * itself.
 *
 *     exceeds (file | time)
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void limit(int resource, rlim_t value)
{
    /* At the hard limit of CPU time, the kernel sends SIGKILL (setrlimit(2)). */
    struct rlimit both = { value, 60 * value };
    setrlimit(resource, &both);
}

static void write_too_much(void)
{
    char bytes[4096] = { 0 };
    FILE *file = tmpfile();
    limit(RLIMIT_FSIZE, sizeof bytes / 2);
    (void)!write(fileno(file), bytes, sizeof bytes);
    (void)!write(fileno(file), bytes, sizeof bytes);
}

static void compute_too_long(void)
{
    limit(RLIMIT_CPU, 1);
    for (volatile unsigned long turns = 0;; turns++)
        ;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "file") == 0)
        write_too_much();
    else
        compute_too_long();
    MPI_Init(&argc, &argv);
    printf("The limit was not exceeded.\n");
    MPI_Finalize();
    return 0;
}
