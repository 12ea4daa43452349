/* Procedures that any thread may call at any time (MPI 4.1, section 11.6). */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static int provided = -1;

static void *ask(void *moment)
{
    int main_thread = -1, initialized = -1, finalized = -1, level = -1, version = 0, subversion = 0, length = 0;
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    MPI_Get_version(&version, &subversion);
    MPI_Get_library_version(text, &length);
    printf("%s: initialized %d, finalized %d, MPI %d.%d, %.8s, %d in %d\n", (char *)moment, initialized, finalized, version,
           subversion, text, (int)strlen(text), length);
    if (initialized && !finalized) {
        MPI_Is_thread_main(&main_thread);
        MPI_Query_thread(&level);
        printf("%s: main thread %d, level as provided %d\n", (char *)moment, main_thread, level == provided);
    }
    return NULL;
}

static void ask_in_a_thread(const char *moment)
{
    pthread_t thread;
    pthread_create(&thread, NULL, ask, (void *)moment);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        ask_in_a_thread("meanwhile");
    ask(rank == 0 ? "in the main thread" : "elsewhere");
    MPI_Finalize();
    if (rank == 0)
        ask_in_a_thread("afterwards");
    return 0;
}
