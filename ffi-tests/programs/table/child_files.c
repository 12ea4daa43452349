/*
 * Files that child processes change in each round: appended, overwritten, replaced,
 * created, removed, renamed. The children are shells with their commands, and a forked
 * process.
 */
#define _GNU_SOURCE
#include "../check.h"
#include <dirent.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

extern char **environ;

static char directory[32];

__attribute__((format(printf, 1, 2))) static void run(const char *format, ...)
{
    char command[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    MUST(system(command) == 0);
}

/* A program without an intermediate shell. */
static void start(char *const arguments[])
{
    pid_t child;
    int status = -1;
    MUST(posix_spawnp(&child, arguments[0], NULL, NULL, arguments, environ) == 0);
    MUST(waitpid(child, &status, 0) == child && status == 0);
}

static void say_file(const char *name)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "r");
    if (!file) {
        say("%s: none", name);
        return;
    }
    long lines = 0, sum = 0;
    while (fgets(line, sizeof line, file)) {
        lines++;
        for (char *at = line; *at; at++)
            sum = (sum * 31 + *at) % 1000003;
    }
    fclose(file);
    struct stat about;
    MUST(stat(path, &about) == 0);
    say("%s: %ld lines, sum %ld, mode %o", name, lines, sum, about.st_mode & 0777);
}

/* In place, by a child that has the rank's memory. */
static void overwrite(void)
{
    char path[64], text[16];
    pid_t child = fork();
    if (child == 0) {
        snprintf(path, sizeof path, "%s/fixed", directory);
        int file = open(path, O_RDWR);
        int length = snprintf(text, sizeof text, "%06d", round_);
        _exit(pwrite(file, text, length, 7 * (round_ % 5)) != length);
    }
    int status = -1;
    MUST(waitpid(child, &status, 0) == child && status == 0);
}

static void content(void)
{
    char path[64];
    run("echo round %d >> %s/log", round_, directory);
    overwrite();
    meet();
    run("cd %s && sed -i 's/^./%d/' fixed && echo %d > small", directory, round_ % 10, round_);
    run("cd %s && mv small new.%d && chmod 6%d0 log", directory, round_ % 3, round_ % 8);
    meet();
    /* A file that the rank itself creates, and that a child replaces. */
    snprintf(path, sizeof path, "%s/own", directory);
    FILE *own = fopen(path, "w");
    fprintf(own, "made in round %d\n", round_);
    fclose(own);
    run("cd %s && sed -i s/made/edited/ own && mkdir sub.%d && touch sub.%d/x", directory, round_, round_);
    if (round_ > 1)
        run("cd %s && rm -r sub.%d", directory, round_ - 2);
    meet();
    snprintf(path, sizeof path, "%s/copy", directory);
    unlink(path);
    start((char *[]){"cp", "/proc/self/cmdline", path, NULL});
    run("cd %s && chmod 644 copy && tee -a log < own > copy", directory);
    const char *names[] = {"log", "fixed", "small", "new.0", "new.1", "new.2", "own", "copy"};
    for (unsigned at = 0; at < sizeof names / sizeof *names; at++)
        say_file(names[at]);
    run("ls -A %s | wc -l >> %s/log", directory, directory);
    struct dirent **entries;
    int count = scandir(directory, &entries, NULL, alphasort);
    for (int at = 0; at < count; at++) {
        say("there is %s", entries[at]->d_name);
        free(entries[at]);
    }
    free(entries);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(directory, sizeof directory, "files.%d", rank);
    run("mkdir %s && for i in 1 2 3 4 5; do echo 000000; done > %s/fixed", directory, directory);
    run_rounds(argc, argv, content);
    run("rm -r %s", directory);
    MPI_Finalize();
    return 0;
}
