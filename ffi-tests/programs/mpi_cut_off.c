/*
 * A long file that is truncated in every round and written again. A
 * truncation must not keep the removed part in memory.
 */
#include "check.h"
#include <sys/resource.h>

enum { MIB = 1 << 20, LENGTH = 96 };

static MPI_File file;
static int piece[MIB / sizeof(int)];

static long most_memory(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_maxrss;
}

static void fill(int from)
{
    for (int at = from + rank; at < LENGTH; at += size) {
        for (unsigned i = 0; i < MIB / sizeof(int); i++)
            piece[i] = (round_ * LENGTH + at) * 2654435761u + i;
        MUST(MPI_File_write_at(file, (MPI_Offset)at * MIB, piece, MIB, MPI_BYTE, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    }
}

static void content(void)
{
    if (round_ == 0) {
        MUST(MPI_File_open(MPI_COMM_WORLD, "long.dat", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) == MPI_SUCCESS);
        fill(0);
    }
    meet();
    long before = most_memory();
    int rest = 8 + 3 * round_;
    MUST(MPI_File_set_size(file, (MPI_Offset)rest * MIB + 77) == MPI_SUCCESS);
    CHECK(most_memory() - before < 32 << 10);
    meet();
    fill(rest);
    meet();
    MPI_Offset length;
    MUST(MPI_File_get_size(file, &length) == MPI_SUCCESS);
    say("%lld bytes", (long long)length);
    if (round_ == rounds - 1)
        MUST(MPI_File_close(&file) == MPI_SUCCESS);
}

MAIN(content)
