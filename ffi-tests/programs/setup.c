/*
 * setup: the set-up phase has effects on files, which a replay must not repeat, and
 * results that vary. The main phase uses the files for so long that a replay in the
 * meantime could damage them.
 *
 *   mpirun -n 4 setup COLLECTIVES [process|input]
 *
 * With `process`, a child process is started in the set-up phase; with `input`, four
 * numbers are read from a file of that name.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { CELLS = 100000 };

/* Static data that are equal in a replay, and static data that differ. */
static double operator_[CELLS];
static struct {
    time_t started;
    pid_t process;
    char host[64];
    unsigned char random[4096 * 3];
    void *self;
} unlike __attribute__((aligned(4096)));

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static FILE *file(const char *what, int rank, const char *mode)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%d", what, rank);
    FILE *opened = fopen(name, mode);
    if (!opened)
        fail(name);
    return opened;
}

static void leave_traces(int rank)
{
    char name[64], line[64] = "";
    FILE *made = file("made", rank, "w");
    fprintf(made, "made by the setup of rank %d\n", rank);
    fclose(made);
    FILE *again = file("made", rank, "r");
    if (!fgets(line, sizeof line, again) || strncmp(line, "made", 4))
        fail("what was written cannot be read");
    fclose(again);
    FILE *grown = file("grown", rank, "a");
    fprintf(grown, "setup\n");
    fclose(grown);
    snprintf(name, sizeof name, "directory.%d", rank);
    if (mkdir(name, 0700))
        fail(name);
    FILE *gone = file("gone", rank, "w");
    fclose(gone);
    snprintf(name, sizeof name, "gone.%d", rank);
    if (unlink(name))
        fail(name);
    snprintf(name, sizeof name, "made.%d", rank);
    if (truncate(name, 12))
        fail(name);
    if (rank == 0)
        printf("the setup is done\n");
}

static void remember_what_differs(void)
{
    unlike.started = time(NULL);
    unlike.process = getpid();
    gethostname(unlike.host, sizeof unlike.host);
    unlike.self = &unlike;
    int random = open("/dev/urandom", O_RDONLY);
    if (random < 0 || read(random, unlike.random, sizeof unlike.random) != sizeof unlike.random)
        fail("/dev/urandom");
    close(random);
}

static double read_input(void)
{
    double numbers[4];
    FILE *input = fopen("input", "r");
    if (!input || fscanf(input, "%lf %lf %lf %lf", numbers, numbers + 1, numbers + 2, numbers + 3) != 4)
        fail("input");
    fclose(input);
    return numbers[0] + numbers[1] + numbers[2] + numbers[3];
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int collectives = argc > 1 ? atoi(argv[1]) : 100;

    remember_what_differs();
    leave_traces(rank);
    if (argc > 2 && !strcmp(argv[2], "process") && system("true"))
        fail("true");
    double numerator = 1;
    if (argc > 2 && !strcmp(argv[2], "input"))
        numerator = read_input();
    for (int cell = 0; cell < CELLS; cell++)
        operator_[cell] = numerator / (1 + cell + rank);
    double scale = 1 + rank;
    MPI_Bcast(&scale, 1, MPI_DOUBLE, size - 1, MPI_COMM_WORLD);

    double sum = scale;
    for (int step = 0; step < collectives; step++) {
        double own = operator_[step % CELLS] * sum;
        MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (step % 64 == 0) {
            FILE *grown = file("grown", rank, "a");
            fprintf(grown, "step %d: %.17g\n", step, sum);
            fclose(grown);
        }
    }
    if (unlike.process != getpid() && unlike.self != &unlike)
        fail("static data");
    if (rank == 0)
        printf("%d ranks: %.17g\n", size, sum);
    MPI_Finalize();
    return 0;
}
