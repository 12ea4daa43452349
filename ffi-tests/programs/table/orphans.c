/*
 * Daemons of the program: programs that its grandchildren execute after their parent
 * has exited.
 */
#define _GNU_SOURCE
#include "../check.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

/*
 * Waits until a grandchild, whose parent has exited, has executed a program that writes
 * to the pipe.
 */
static void content(void)
{
    int ends[2];
    char text[16] = "";
    MUST(pipe(ends) == 0);
    if (fork() == 0) {
        if (fork() == 0) {
            while (getppid() != 1)
                usleep(100);
            dup2(ends[1], 1);
            execlp("printf", "printf", "%s", "executed", NULL);
        }
        _exit(0);
    }
    close(ends[1]);
    MUST(wait(NULL) > 0);
    int length = 0;
    for (ssize_t more; (more = read(ends[0], text + length, sizeof text - 1 - length)) > 0;)
        length += more;
    close(ends[0]);
    say("%s", text);
    meet();
}

MAIN(content)
