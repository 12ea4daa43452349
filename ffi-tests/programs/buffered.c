/* Buffered sends; the buffer stays attached over several rounds. */
#include "check.h"

enum { LARGE = 20000 };

static char *buffer;
static int buffer_size;
static MPI_Request kept = MPI_REQUEST_NULL;
static int kept_value;
static int large[LARGE], got[LARGE];

static void content(void)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size, values[3], in;
    MPI_Request request;
    MPI_Status status;
    if (round_ == 0) {
        buffer_size = 8 * LARGE + 20 * MPI_BSEND_OVERHEAD;
        MPI_Alloc_mem(buffer_size, MPI_INFO_NULL, &buffer);
        MPI_Buffer_attach(buffer, buffer_size);
        MPI_Bsend_init(&kept_value, 1, MPI_INT, right, 9, MPI_COMM_WORLD, &kept);
    }
    for (int i = 0; i < 3; i++) {
        values[i] = 10 * round_ + i + rank;
        MPI_Bsend(&values[i], 1, MPI_INT, right, i, MPI_COMM_WORLD);
        values[i] = -1; /* the value has been copied */
    }
    for (int i = 0; i < LARGE; i++)
        large[i] = i * 3 + rank + round_;
    MPI_Bsend(large, LARGE, MPI_INT, right, 3, MPI_COMM_WORLD);
    memset(large, 0, sizeof large);
    meet();
    MPI_Ibsend(&round_, 1, MPI_INT, right, 4, MPI_COMM_WORLD, &request);
    kept_value = 5000 + round_ + rank;
    MPI_Start(&kept);
    meet();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Wait(&kept, MPI_STATUS_IGNORE);
    for (int i = 2; i >= 0; i--) {
        MPI_Recv(&in, 1, MPI_INT, left, i, MPI_COMM_WORLD, &status);
        say_status("bsend", &status, MPI_INT);
        MUST(in == 10 * round_ + i + left);
    }
    meet();
    MPI_Recv(got, LARGE, MPI_INT, left, 3, MPI_COMM_WORLD, &status);
    int bad = 0;
    for (int i = 0; i < LARGE; i++)
        bad += got[i] != i * 3 + left + round_;
    CHECK(bad == 0);
    MPI_Recv(&in, 1, MPI_INT, left, 4, MPI_COMM_WORLD, &status);
    CHECK(in == round_);
    MPI_Recv(&in, 1, MPI_INT, left, 9, MPI_COMM_WORLD, &status);
    CHECK(in == 5000 + round_ + left);
    if (round_ % 4 == 3) {
        void *back;
        int bytes;
        MPI_Buffer_detach(&back, &bytes);
        CHECK(back == buffer && bytes == buffer_size);
        /* Sends to MPI_PROC_NULL need no attached buffer. */
        MPI_Bsend(large, LARGE, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD);
        MPI_Ibsend(large, LARGE, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        meet();
        MPI_Buffer_attach(buffer, buffer_size);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    void *back;
    int bytes;
    MPI_Request_free(&kept);
    MPI_Buffer_detach(&back, &bytes);
    MPI_Free_mem(buffer);
    MPI_Finalize();
    return 0;
}
