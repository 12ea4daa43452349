/*
 * Children without exec: each rank but rank 1 forks a child that lives until the end.
 * Neither the child at its start nor the rank in any round finds a descriptor of the MPI
 * library in the child, or a mapping of the library's device (devices/libmpi.c). A child
 * of the last round has neither, and a program that the rank executes has no descriptor of
 * the device.
 *
 *     forked [rounds [pause in milliseconds [mappings of the device in a rank]]]
 */
#define _GNU_SOURCE
#include "check.h"
#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { FIRST_OF_MPI = 768 };

static int expected;
static pid_t child;
/* Inode of the device that was found last. */
static unsigned long device;

static int descriptors_of(pid_t process)
{
    char path[64];
    int count = 0;
    struct dirent *entry;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)process);
    DIR *directory = opendir(path);
    if (!directory)
        return -1;
    while ((entry = readdir(directory)))
        count += atoi(entry->d_name) >= FIRST_OF_MPI;
    closedir(directory);
    return count;
}

static int device_mappings_of(pid_t process)
{
    char path[64], line[512];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)process);
    FILE *maps = fopen(path, "r");
    if (!maps)
        return -1;
    while (fgets(line, sizeof line, maps)) {
        char *name = strstr(line, "socket:[");
        count += name && sscanf(name, "socket:[%lu", &device) == 1;
    }
    fclose(maps);
    return count;
}

static void live(int report, int lasts)
{
    int found[2] = {descriptors_of(getpid()), device_mappings_of(getpid())};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (write(report, found, sizeof found) != sizeof found)
        _exit(1);
    close(report);
    while (lasts)
        pause();
    _exit(0);
}

/* Starts a child, which states what it has when its code begins. */
static pid_t start_child(int lasts)
{
    int ends[2], found[2] = {-1, -1};
    MUST(pipe(ends) == 0);
    pid_t started = fork();
    if (started == 0)
        live(ends[1], lasts);
    MUST(read(ends[0], found, sizeof found) == sizeof found);
    close(ends[0]);
    close(ends[1]);
    say("at its start a child has %d descriptors and %d mappings", found[0], found[1]);
    return started;
}

/* Counts the descriptors of the device in a program that this rank executes. */
static void execute(void)
{
    char command[128];
    int count = -1;
    MUST(device_mappings_of(getpid()) == expected);
    snprintf(command, sizeof command,
             "find /proc/self/fd -lname 'socket:\\[%lu\\]' | wc -l", device);
    FILE *found = popen(command, "r");
    MUST(found && fscanf(found, "%d", &count) == 1);
    pclose(found);
    say("a program has %d descriptors of the device", count);
}

static void content(void)
{
    MUST(device_mappings_of(getpid()) == expected);
    if (rank != 1)
        say("the child has %d descriptors and %d mappings", descriptors_of(child),
            device_mappings_of(child));
    if (round_ == rounds - 1)
        waitpid(start_child(0), NULL, 0);
    meet();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    start_rounds(argc, argv);
    expected = argc > 3 ? atoi(argv[3]) : 0;
    if (rank != 1)
        child = start_child(1);
    execute();
    all_rounds(content);
    if (rank != 1) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    MPI_Finalize();
    return 0;
}
