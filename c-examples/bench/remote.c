/*
 * remote: cost of accesses to memory of another rank and to files, on two ranks.
 *
 *   mpirun -n 2 remote [ROUNDS [FIGURE...]]
 *
 * A figure is seconds for one operation, or bytes per second. Rank 0 is the origin;
 * both ranks write and read the file, each in its own part.
 */
#include <stdlib.h>
#include <string.h>

#include "figures.h"

enum { SMALL = 8, LARGE = 1 << 20, ROOM = 8 * LARGE };

static char *buffer;
/* Memory of the program, and memory allocated by MPI. */
static MPI_Win created, allocated;
static MPI_File file;

/* An operation on a window. */
typedef void (*operation)(MPI_Win window, int bytes);

static void put(MPI_Win window, int bytes)
{
    MPI_Put(buffer, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, window);
}

static void get(MPI_Win window, int bytes)
{
    MPI_Get(buffer, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, window);
}

static void accumulate(MPI_Win window, int bytes)
{
    int count = bytes / (int)sizeof(double);
    MPI_Accumulate(buffer, count, MPI_DOUBLE, 1, 0, count, MPI_DOUBLE, MPI_SUM, window);
}

/* Seconds for one operation, complete at the target, while rank 1 waits. */
static double flushed(int rank, MPI_Win window, operation operate, int bytes, int count)
{
    double took = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window);
        double start = MPI_Wtime();
        for (int i = 0; i < count; i++) {
            operate(window, bytes);
            MPI_Win_flush(1, window);
        }
        took = MPI_Wtime() - start;
        MPI_Win_unlock(1, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return took / count;
}

static double rate(double seconds)
{
    return seconds > 0 ? LARGE / seconds : 0;
}

#define OF_WINDOWS(name)                                                                                               \
    static double name##_small(int rank) { return flushed(rank, created, name, SMALL, 200); }                          \
    static double name##_large(int rank) { return rate(flushed(rank, created, name, LARGE, 8)); }                      \
    static double name##_allocated(int rank) { return flushed(rank, allocated, name, SMALL, 200); }                    \
    static double name##_allocated_large(int rank) { return rate(flushed(rank, allocated, name, LARGE, 8)); }

OF_WINDOWS(put)
OF_WINDOWS(get)
OF_WINDOWS(accumulate)

/* Seconds for an epoch in which each rank puts 8 bytes to the other. */
static double fence(int rank)
{
    enum { COUNT = 50 };
    MPI_Win_fence(MPI_MODE_NOPRECEDE, created);
    double start = MPI_Wtime();
    for (int i = 0; i < COUNT; i++) {
        MPI_Put(buffer, SMALL, MPI_BYTE, 1 - rank, 0, SMALL, MPI_BYTE, created);
        MPI_Win_fence(0, created);
    }
    double took = (MPI_Wtime() - start) / COUNT;
    MPI_Win_fence(MPI_MODE_NOSUCCEED, created);
    return took;
}

/* Seconds for an Accumulate with its locks, which are not contended. */
static double locked(int rank, MPI_Win window)
{
    enum { COUNT = 200 };
    double took = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        double start = MPI_Wtime();
        for (int i = 0; i < COUNT; i++) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window);
            accumulate(window, SMALL);
            MPI_Win_unlock(1, window);
        }
        took = (MPI_Wtime() - start) / COUNT;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return took;
}

static double locked_created(int rank) { return locked(rank, created); }
static double locked_allocated(int rank) { return locked(rank, allocated); }

/* Like `fence`, by post, start, complete and wait. */
static double post_start(int rank)
{
    enum { COUNT = 50 };
    MPI_Group all, other;
    int peer = 1 - rank;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &peer, &other);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < COUNT; i++) {
        MPI_Win_post(other, 0, created);
        MPI_Win_start(other, 0, created);
        MPI_Put(buffer, SMALL, MPI_BYTE, peer, 0, SMALL, MPI_BYTE, created);
        MPI_Win_complete(created);
        MPI_Win_wait(created);
    }
    double took = (MPI_Wtime() - start) / COUNT;
    MPI_Group_free(&other);
    MPI_Group_free(&all);
    return took;
}

typedef int (*transfer)(MPI_File, MPI_Offset, void *, int, MPI_Datatype, MPI_Status *);

static int write_at(MPI_File of, MPI_Offset at, void *from, int count, MPI_Datatype type, MPI_Status *status)
{
    return MPI_File_write_at(of, at, from, count, type, status);
}

static int write_at_all(MPI_File of, MPI_Offset at, void *from, int count, MPI_Datatype type, MPI_Status *status)
{
    return MPI_File_write_at_all(of, at, from, count, type, status);
}

/* Bytes per second of both ranks. */
static double transferred(int rank, transfer call)
{
    enum { COUNT = 4 };
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < COUNT; i++)
        call(file, (MPI_Offset)(2 * i + rank) * LARGE, buffer, LARGE, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    return 2.0 * COUNT * LARGE / (MPI_Wtime() - start);
}

static double file_write(int rank) { return transferred(rank, write_at); }
static double file_read(int rank) { return transferred(rank, MPI_File_read_at); }
static double file_write_all(int rank) { return transferred(rank, write_at_all); }
static double file_read_all(int rank) { return transferred(rank, MPI_File_read_at_all); }

int main(int argc, char **argv)
{
    static const figure figures[] = {
        {"put", put_small, 0},
        {"get", get_small, 0},
        {"accumulate", accumulate_small, 0},
        {"put_large", put_large, 1},
        {"get_large", get_large, 1},
        {"accumulate_large", accumulate_large, 1},
        {"put_allocated", put_allocated, 0},
        {"get_allocated", get_allocated, 0},
        {"accumulate_allocated", accumulate_allocated, 0},
        {"put_allocated_large", put_allocated_large, 1},
        {"get_allocated_large", get_allocated_large, 1},
        {"accumulate_allocated_large", accumulate_allocated_large, 1},
        {"locked", locked_created, 0},
        {"locked_allocated", locked_allocated, 0},
        {"fence", fence, 0},
        {"post_start", post_start, 0},
        {"file_write", file_write, 1},
        {"file_read", file_read, 1},
        {"file_write_all", file_write_all, 1},
        {"file_read_all", file_read_all, 1},
    };
    char *own, *given;

    MPI_Init(&argc, &argv);
    own = malloc(ROOM);
    buffer = malloc(ROOM);
    if (own == NULL || buffer == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    /* Memory that was never written is a single page, which is fast to read. */
    memset(buffer, 1, ROOM);
    memset(own, 1, ROOM);
    MPI_Win_create(own, ROOM, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &created);
    MPI_Win_allocate(ROOM, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &given, &allocated);
    memset(given, 1, ROOM);
    if (MPI_File_open(MPI_COMM_WORLD, "remote.data", MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                      &file) != MPI_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    print_figures(figures, sizeof figures / sizeof figures[0], argc, argv);
    MPI_File_close(&file);
    MPI_Win_free(&allocated);
    MPI_Win_free(&created);
    free(buffer);
    free(own);
    MPI_Finalize();
    return 0;
}
