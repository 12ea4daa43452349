/*
 * Ends with MPI_Abort in the last round, with status 37.
 *
 *     aborting [rounds [pause in milliseconds [file | early]]]
 *
 * With `file`, the program ends by MPI_ERRORS_ARE_FATAL for a file that cannot
 * be opened; with `early`, by an error before MPI_Init.
 */
#include "check.h"

static int by_file;

static void content(void)
{
    meet();
    say("round %d", round_);
    if (round_ == rounds - 1) {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_File file;
        if (by_file) {
            MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
            MPI_File_open(MPI_COMM_SELF, "/no/such/directory/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
            printf("The error has not been fatal.\n");
            MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
        } else if (rank == size - 1) {
            MPI_Abort(MPI_COMM_WORLD, 37);
        }
        if (!by_file)
            sleep(20);
    }
}

int main(int argc, char **argv)
{
    if (argc > 3 && strcmp(argv[3], "early") == 0) {
        MPI_Info none = MPI_INFO_NULL;
        MPI_Info_free(&none);
        printf("The error has not been fatal.\n");
    }
    MPI_Init(&argc, &argv);
    by_file = argc > 3 && strcmp(argv[3], "file") == 0;
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
