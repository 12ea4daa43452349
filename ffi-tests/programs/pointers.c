/* Shared file pointers of many files; in each round, the ranks move them in turn. */
#include "check.h"

enum { FILES = 24 };

static MPI_File files[FILES];

static void content(void)
{
    if (round_ == 0)
        for (int i = 0; i < FILES; i++) {
            char name[32];
            snprintf(name, sizeof name, "turns.%d", i);
            MUST(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &files[i]) == MPI_SUCCESS);
            MUST(MPI_File_set_view(files[i], 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL) == MPI_SUCCESS);
        }
    for (int turn = 0; turn < size; turn++) {
        for (int i = 0; turn == rank && i < FILES; i++) {
            int number = 1000 * round_ + 10 * i + rank;
            MUST(MPI_File_write_shared(files[i], &number, 1, MPI_INT, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        }
        meet();
    }
    MPI_Offset at;
    for (int i = 0; i < FILES; i++) {
        MPI_File_get_position_shared(files[i], &at);
        say("%lld", (long long)at);
    }
    for (int i = 0; round_ == rounds - 1 && i < FILES; i++)
        MPI_File_close(&files[i]);
}

MAIN(content)
