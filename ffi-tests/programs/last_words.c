/*
 * Attributes of MPI_COMM_SELF whose delete functions communicate at the beginning
 * of MPI_Finalize (MPI 4.1, 11.2.4). The other ranks wait for a message from the
 * delete function of rank 0 before they call MPI_Finalize. Also, thousands of
 * requests that are freed at once.
 */
#include "check.h"

enum { FREED = 20000 };

static int freed[FREED], from_last[4];

static int delete(MPI_Comm comm, int key, void *value, void *extra)
{
    int one = 1, all = 0;
    (void)comm, (void)key, (void)value, (void)extra;
    if (rank == 0)
        for (int other = 1; other < size; other++)
            MPI_Send(&other, 1, MPI_INT, other, 7, MPI_COMM_WORLD);
    for (int i = 0; i < 4; i++) {
        MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        from_last[i] = all + i;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("last words: %d %d\n", from_last[0], from_last[3]);
    return MPI_SUCCESS;
}

static void content(void)
{
    MPI_Request request;
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (int i = 0; i < FREED; i++) {
        MPI_Irecv(&freed[i], 1, MPI_INT, left, i, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    }
    meet();
    for (int i = 0; i < FREED; i++)
        MPI_Send(&i, 1, MPI_INT, right, i, MPI_COMM_WORLD);
    MPI_Sendrecv(&rank, 1, MPI_INT, right, FREED, &points, 1, MPI_INT, left, FREED, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(points == left && freed[FREED - 1] == FREED - 1);
}

int main(int argc, char **argv)
{
    int key, word;
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    MPI_Comm_free_keyval(&key);
    if (rank > 0) {
        MPI_Recv(&word, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (word != rank)
            MPI_Abort(MPI_COMM_WORLD, 3);
    }
    MPI_Finalize();
    return 0;
}
