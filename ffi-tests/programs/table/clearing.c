/*
 * Directories that are filled, and some rounds later emptied while they are listed, as
 * by std::filesystem::remove_all.
 */
#include "../check.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

enum { FILES = 12, AGE = 4, MOST = 10000 };

static void fill(const char *name)
{
    MUST(mkdir(name, 0755) == 0);
    int directory = open(name, O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < FILES; i++) {
        char file[20];
        snprintf(file, sizeof file, "file%d", i);
        int descriptor = openat(directory, file, O_WRONLY | O_CREAT | O_EXCL, 0644);
        MUST(descriptor >= 0 && write(descriptor, file, strlen(file)) > 0);
        MUST(close(descriptor) == 0);
    }
    close(directory);
}

static void clear(const char *name)
{
    DIR *directory = opendir(name);
    struct dirent *entry;
    int removed = 0;
    while (directory && removed < MOST && (entry = readdir(directory)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        MUST(unlinkat(dirfd(directory), entry->d_name, 0) == 0);
        removed++;
        /* A program that must not miss an entry restarts the listing. */
        rewinddir(directory);
    }
    say("%d removed", removed);
    MUST(closedir(directory) == 0 && rmdir(name) == 0);
}

static void content(void)
{
    char name[50];
    snprintf(name, sizeof name, "directory.%d.%d", rank, round_);
    fill(name);
    if (round_ >= AGE) {
        snprintf(name, sizeof name, "directory.%d.%d", rank, round_ - AGE);
        clear(name);
    }
    meet();
}

MAIN(content)
