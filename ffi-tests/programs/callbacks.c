/*
 * Callbacks that wait for a lock of another thread while that thread calls MPI,
 * as callbacks of interpreters do (MPI_THREAD_MULTIPLE): callbacks ROUNDS.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { EACH = 5 };
static int rank, size, rounds;
static MPI_Comm own[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Number of callbacks that have begun, and of those that have got the lock. */
static atomic_int begun, done;
static long sum;

static int needs_lock(void)
{
    atomic_fetch_add(&begun, 1);
    pthread_mutex_lock(&lock);
    atomic_fetch_add(&done, 1);
    pthread_mutex_unlock(&lock);
    return MPI_SUCCESS;
}

static int copy(MPI_Comm comm, int key, void *extra, void *value, void *out, int *flag)
{
    (void)key, (void)extra;
    int members;
    MPI_Comm_size(comm, &members);
    *(void **)out = value;
    *flag = members == size;
    return needs_lock();
}

static int delete(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    return needs_lock();
}

static void handle(MPI_Comm *comm, int *code, ...)
{
    int class;
    (void)comm;
    MPI_Error_class(*code, &class);
    sum += class == MPI_ERR_RANK;
    needs_lock();
}

static int query(void *extra, MPI_Status *status)
{
    (void)extra;
    MPI_Status_set_elements(status, MPI_INT, 1);
    MPI_Status_set_cancelled(status, 0);
    return needs_lock();
}

static int free_request(void *extra)
{
    (void)extra;
    return needs_lock();
}

static int cancel(void *extra, int complete)
{
    (void)extra, (void)complete;
    return MPI_SUCCESS;
}

/* Calls MPI procedures that run callbacks. */
static void *calls(void *unused)
{
    (void)unused;
    int key, value = 0;
    MPI_Errhandler handler;
    MPI_Comm_create_keyval(copy, delete, &key, NULL);
    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Comm_set_errhandler(own[0], handler);
    MPI_Comm_set_attr(own[0], key, &value);
    for (int round = 0; round < rounds; round++) {
        MPI_Comm twin;
        MPI_Request request;
        MPI_Comm_dup(own[0], &twin);
        MPI_Comm_free(&twin);
        MPI_Send(&value, 1, MPI_INT, size, 0, own[0]);
        MPI_Grequest_start(query, free_request, cancel, NULL, &request);
        MPI_Grequest_complete(request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Comm_set_errhandler(own[0], MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
    return NULL;
}

/* Holds the lock whenever a callback requests it, and calls MPI. */
static void *holds(void *unused)
{
    (void)unused;
    int key;
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &key, NULL);
    for (int count = 1; count <= EACH * rounds; count++) {
        pthread_mutex_lock(&lock);
        while (atomic_load(&begun) < count)
            usleep(20);
        int members, bytes, is_set;
        long *value;
        MPI_Datatype type;
        MPI_Comm_size(own[0], &members);
        MPI_Type_contiguous(count, MPI_INT, &type);
        MPI_Type_set_attr(type, key, &sum);
        MPI_Type_get_attr(type, key, &value, &is_set);
        MPI_Type_size(type, &bytes);
        MPI_Type_free(&type);
        sum += bytes + members + (is_set && value == &sum);
        pthread_mutex_unlock(&lock);
        while (atomic_load(&done) < count)
            usleep(20);
    }
    return NULL;
}

/* Waits for other processes, also while callbacks run. */
static void *reduces(void *unused)
{
    (void)unused;
    for (long step = 0, all; step < 10 * rounds; step++)
        MPI_Allreduce(&step, &all, 1, MPI_LONG, MPI_SUM, own[1]);
    return NULL;
}

int main(int argc, char **argv)
{
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rounds = argc > 1 ? atoi(argv[1]) : 20;
    if (level < MPI_THREAD_MULTIPLE)
        abort();
    for (int i = 0; i < 2; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &own[i]);
    void *(*work[])(void *) = {calls, holds, reduces};
    pthread_t thread[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, work[i], NULL);
    double value = rank, all;
    for (int step = 1; step <= 5 * rounds; step++) {
        MPI_Allreduce(&value, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        value = value * 0.75 + all / (1 + step % 7);
        usleep(500);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    long mine[] = {sum, atomic_load(&begun), atomic_load(&done)}, both[3];
    MPI_Reduce(mine, both, 3, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%.17g: %ld %ld %ld\n", all, both[0], both[1], both[2]);
    MPI_Finalize();
    return 0;
}
