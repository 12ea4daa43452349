/*
 * More elements than an int can count (MPI 4.0): in messages, collectives, a file and a
 * window. Two processes, with 2 GiB each.
 */
#include "check.h"

#ifdef OPEN_MPI /* Version 5.0 has no such procedures. */
int main(void)
{
    return 0;
}
#else

#define MANY (((MPI_Count)1 << 31) + 9)
#define STEP ((MPI_Count)64 << 20)

static char *data;

static char value(MPI_Count at)
{
    return (char)(17 * round_ + at / STEP + 1);
}

static void fill(void)
{
    for (MPI_Count at = 0; at < MANY; at += STEP)
        data[at] = value(at);
    data[MANY - 1] = value(MANY - 1);
}

/* True if the data have arrived; clears them. */
static int is_there(void)
{
    int is = data[MANY - 1] == value(MANY - 1);
    data[MANY - 1] = 0;
    for (MPI_Count at = 0; at < MANY; at += STEP) {
        is = is && data[at] == value(at);
        data[at] = 0;
    }
    return is;
}

static void messages(void)
{
    MPI_Status status;
    MPI_Request request;
    MPI_Count count = 0;
    if (rank == 0) {
        fill();
        MPI_Isend_c(data, MANY, MPI_CHAR, 1, 5, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv_c(data, MANY, MPI_CHAR, 0, 5, MPI_COMM_WORLD, &status);
        MPI_Get_count_c(&status, MPI_CHAR, &count);
        CHECK(count == MANY && is_there());
    }
    meet();
    if (rank == 1)
        fill();
    MPI_Bcast_c(data, MANY, MPI_CHAR, 1, MPI_COMM_WORLD);
    CHECK(is_there());
    meet();
}

static void reduction(void)
{
    if (rank == 1)
        fill();
    MPI_Allreduce_c(MPI_IN_PLACE, data, MANY, MPI_CHAR, MPI_BOR, MPI_COMM_WORLD);
    CHECK(is_there());
    meet();
}

static void file(void)
{
    MPI_File file;
    MPI_Status status;
    MPI_Count count;
    MPI_File_open(MPI_COMM_WORLD, "long.data", MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    if (rank == 0) {
        fill();
        MPI_File_write_at_c(file, 3, data, MANY, MPI_CHAR, &status);
        MPI_Get_count_c(&status, MPI_CHAR, &count);
        CHECK(count == MANY);
    }
    MPI_File_sync(file);
    meet();
    MPI_File_sync(file);
    if (rank == 1) {
        MPI_File_read_at_c(file, 3, data, MANY, MPI_CHAR, &status);
        CHECK(is_there());
    }
    meet();
    MPI_File_close(&file);
}

static void window(void)
{
    MPI_Win win;
    MPI_Win_create(data, MANY, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    if (rank == 1)
        fill();
    MPI_Win_fence(0, win);
    if (rank == 1)
        MPI_Put_c(data, MANY, MPI_CHAR, 0, 0, MANY, MPI_CHAR, win);
    MPI_Win_fence(0, win);
    CHECK(is_there());
    MPI_Win_free(&win);
}

static void content(void)
{
    messages();
    reduction();
    file();
    window();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    data = malloc(MANY);
    run_rounds(argc, argv, content);
    free(data);
    MPI_Finalize();
    return 0;
}
#endif
