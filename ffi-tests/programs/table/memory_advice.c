/*
 * Attributes of mappings (madvise, mlock), set before and during the rounds, changed
 * and reverted; and guard pages (MADV_GUARD_INSTALL), one of which is removed later.
 */
#define _GNU_SOURCE
#include "../check.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

enum { FORKED, WIPED, HUGE, SMALL, UNDUMPED, LOCKED, GUARDED, AREAS };
enum { SIZE = 1 << 16, PAGE = 4096 };
#define GUARD_INSTALL 102
#define GUARD_REMOVE 103

static const char *const flags[] = {"dc", "wf", "dd", "lo", "hg", "nh"};
static char *areas[AREAS];
static int has_guards;
static sigjmp_buf out;

static void leave(int signal)
{
    (void)signal;
    siglongjmp(out, 1);
}

static int can_be_written(volatile char *at)
{
    if (sigsetjmp(out, 1))
        return 0;
    *at = (char)round_;
    return 1;
}

static void say_flags(int area)
{
    char line[512], found[64] = "";
    unsigned long start = 0;
    FILE *file = fopen("/proc/self/smaps", "r");
    MUST(file != NULL);
    while (fgets(line, sizeof line, file)) {
        unsigned long first, last;
        if (sscanf(line, "%lx-%lx ", &first, &last) == 2)
            start = first <= (unsigned long)areas[area] && (unsigned long)areas[area] < last;
        if (start && strncmp(line, "VmFlags:", 8) == 0)
            for (int i = 0; i < (int)(sizeof flags / sizeof *flags); i++)
                if (strstr(line, flags[i]))
                    strcat(strcat(found, " "), flags[i]);
    }
    fclose(file);
    say("area %d:%s", area, found);
}

static void change(void)
{
    if (round_ == 3) {
        CHECK(madvise(areas[UNDUMPED], SIZE, MADV_DONTDUMP) == 0);
        CHECK(mlock(areas[LOCKED], SIZE) == 0);
        CHECK(madvise(areas[FORKED], SIZE, MADV_DOFORK) == 0);
    }
    if (round_ == 6) {
        CHECK(madvise(areas[FORKED], SIZE, MADV_DONTFORK) == 0);
        CHECK(munlock(areas[LOCKED], SIZE) == 0);
        CHECK(!has_guards || madvise(areas[GUARDED] + 4 * PAGE, PAGE, GUARD_REMOVE) == 0);
        CHECK(!has_guards || madvise(areas[GUARDED] + 6 * PAGE, PAGE, GUARD_INSTALL) == 0);
    }
}

static void content(void)
{
    meet();
    change();
    for (int area = 0; area < AREAS; area++)
        say_flags(area);
    meet();
    for (int page = 1; page < 8; page++)
        say("page %d can be written: %d", page, can_be_written(areas[GUARDED] + page * PAGE));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    for (int area = 0; area < AREAS; area++) {
        areas[area] = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        MUST(areas[area] != MAP_FAILED && mprotect(areas[area] + SIZE, SIZE, PROT_NONE) == 0);
        memset(areas[area], area, SIZE);
    }
    signal(SIGSEGV, leave);
    MUST(madvise(areas[FORKED], SIZE, MADV_DONTFORK) == 0);
    MUST(madvise(areas[WIPED], SIZE, MADV_WIPEONFORK) == 0);
    madvise(areas[HUGE], SIZE, MADV_HUGEPAGE);
    madvise(areas[SMALL], SIZE, MADV_NOHUGEPAGE);
    has_guards = madvise(areas[GUARDED] + 2 * PAGE, PAGE, GUARD_INSTALL) == 0;
    if (has_guards)
        MUST(madvise(areas[GUARDED] + 4 * PAGE, PAGE, GUARD_INSTALL) == 0);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
