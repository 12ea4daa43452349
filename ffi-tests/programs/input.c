/*
 * In each of the first rounds, rank 0 reads one line of standard input, byte by
 * byte, so that the rest stays unread.
 *
 *     input [rounds [pause in milliseconds [lines]]]
 */
#include "check.h"

static int lines = 3;

static void content(void)
{
    char line[1 << 14] = "";
    if (rank == 0 && round_ < lines) {
        for (size_t at = 0; at < sizeof line - 1 && read(0, line + at, 1) == 1 && line[at] != '\n'; at++)
            ;
        line[strcspn(line, "\n")] = 0;
        say("read `%.60s', %zu bytes", line, strlen(line));
    }
    meet();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc > 3)
        lines = atoi(argv[3]);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
