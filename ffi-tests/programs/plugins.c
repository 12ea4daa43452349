// plugins DIRECTORY ROUNDS PAUSE_MS [threads|remove]: opens libraries with thread-local
// data while it runs, some of them repeatedly, and adds up their results. It keeps
// handles and pointers to thread-local data, and checks at the end that they are still
// valid. With "threads", threads use one library; with "remove", one library is
// opened, and its file removed.
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct plugin {
    void *handle;
    long (*add)(int);
    void *(*place)(void);
    void *where;
};

static const char *directory;

static struct plugin load(const char *name, int flags)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.so", directory, name);
    struct plugin plugin = {.handle = dlopen(path, flags)};
    if (!plugin.handle) {
        fprintf(stderr, "%s\n", dlerror());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    *(void **)&plugin.add = dlsym(plugin.handle, "counter_add");
    *(void **)&plugin.place = dlsym(plugin.handle, "counter_place");
    return plugin;
}

static struct plugin shared;

static void *use(void *argument)
{
    long *sum = argument;
    for (int i = 0; i < 500; i++)
        *sum += shared.add(i * (int)(*sum % 3 + 1));
    return NULL;
}

// Threads whose stacks are reused by the next ones.
static void run_threads(int rounds)
{
    long total = 0;
    shared = load("first", RTLD_NOW);
    for (int round = 0; round < rounds; round++) {
        pthread_t threads[4];
        long sums[4] = {1, 2, 3, 4};
        for (int i = 0; i < 4; i++)
            pthread_create(&threads[i], NULL, use, &sums[i]);
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
            total = total * 31 + sums[i];
        }
        MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_LONG, MPI_BXOR, MPI_COMM_WORLD);
    }
    printf("threads: %ld\n", total);
}

static void run(int rank, int rounds, int pause)
{
    static const char *const names[] = {"first", "second", "third"};
    struct plugin plugins[3] = {{0}};
    struct plugin always = {0};
    long value = rank;
    for (int round = 0; round < rounds; round++) {
        // Every fifth round another library, which is closed ten rounds later.
        int which = round / 5 % 3;
        if (round % 5 == 2) {
            struct plugin *plugin = &plugins[which];
            if (plugin->handle && dlclose(plugin->handle))
                MPI_Abort(MPI_COMM_WORLD, 2);
            *plugin = load(names[which], which == 1 ? RTLD_NOW | RTLD_GLOBAL : RTLD_LAZY);
        }
        // Thread-local data are allocated at their first use.
        struct plugin *plugin = &plugins[(round + 1) / 5 % 3];
        if (plugin->handle) {
            plugin->where = plugin->place();
            value += plugin->add(round);
        }
        // This library can never be closed.
        if (round == rounds / 2)
            always = load("fourth", RTLD_NOW | RTLD_NODELETE);
        if (always.handle)
            value += always.add(round);
        long sum = 0;
        MPI_Allreduce(&value, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        value = sum % 1000003 + rank;
        if (rank == 0) {
            printf("round %d: %ld\n", round, sum);
            fflush(stdout);
        }
        usleep(pause * 1000);
    }
    int same = always.handle == load("fourth", RTLD_NOW).handle;
    for (int i = 0; i < 3; i++) {
        struct plugin *plugin = &plugins[i];
        same += !plugin->handle || (plugin->handle == load(names[i], RTLD_NOW).handle && (!plugin->where || plugin->where == plugin->place()));
    }
    printf("rank %d: %d of 4 where they were\n", rank, same);
}

// Opens a library and removes its file, as programs do that compile libraries for themselves.
static void use_removed(int rank, int rounds, int pause)
{
    char path[4096];
    long sum = 0;
    snprintf(path, sizeof path, "%s/first.so", directory);
    shared = load("first", RTLD_NOW);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        unlink(path);
    for (int round = 0; round < rounds; round++) {
        long value = shared.add(round);
        MPI_Allreduce(&value, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        usleep(pause * 1000);
    }
    printf("rank %d: %ld\n", rank, sum);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    directory = argv[1];
    const char *what = argc > 4 ? argv[4] : "";
    if (!strcmp(what, "threads"))
        run_threads(atoi(argv[2]));
    else if (!strcmp(what, "remove"))
        use_removed(rank, atoi(argv[2]), atoi(argv[3]));
    else
        run(rank, atoi(argv[2]), atoi(argv[3]));
    MPI_Finalize();
    return 0;
}
