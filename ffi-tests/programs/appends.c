/*
 * A child process of each rank appends to a file of the rank, once, between two
 * collectives. The environment variable APPENDS_BY may contain a command that
 * starts the child process.
 */
#include "check.h"

static void content(void)
{
    char command[128], name[16], line[16];
    snprintf(name, sizeof name, "file.%d", rank);
    meet();
    if (round_ == 2) {
        const char *by = getenv("APPENDS_BY");
        snprintf(command, sizeof command, "%s sh -c 'echo line >> %s'", by ? by : "", name);
        CHECK(system(command) == 0);
    }
    meet();
    FILE *file = fopen(name, "r");
    for (int count = 1; file && fgets(line, sizeof line, file); count++)
        say("line %d: %s", count, line);
    if (file)
        fclose(file);
}

MAIN(content)
