/*
 * The program executes itself before MPI_Init, once with each function of exec(3). After
 * the last execution it becomes the rank.
 */
#define _GNU_SOURCE
#include "../check.h"
#include <fcntl.h>

/* Executes itself with STEP in the environment. */
static void execute(int step, char **argv)
{
    char text[32];
    const char *self = "/proc/self/exe", *rounds = argv[1];
    snprintf(text, sizeof text, "STEP=%d", step + 1);
    putenv(text);
    switch (step) {
    case 0: execv(self, argv); break;
    case 1: execl(self, argv[0], rounds, NULL); break;
    case 2: execle(self, argv[0], rounds, NULL, environ); break;
    case 3: execvp(self, argv); break;
    case 4: execlp(self, argv[0], rounds, NULL); break;
    case 5: fexecve(open(self, O_RDONLY | O_CLOEXEC), argv, environ); break;
    case 6:
        execvpe("/no/such/program", argv, environ);
        execve(self, argv, environ);
        break;
    default: return;
    }
    abort();
}

static void content(void)
{
    meet();
    say("step %s", getenv("STEP"));
}

int main(int argc, char **argv)
{
    const char *step = getenv("STEP");
    execute(step ? atoi(step) : 0, argv);
    printf("started\n");
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
