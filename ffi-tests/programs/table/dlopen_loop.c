/*
 * A library that is opened and closed in every round: its address, its functions and
 * its thread-local data.
 */
#include "../check.h"
#include <dlfcn.h>
#include <math.h>

typedef double (*function)(double);

static double total;

static function look_up(void *library, const char *name)
{
    function found;
    *(void **)&found = dlsym(library, name);
    return found;
}

static void content(void)
{
    void *library = dlopen("libm.so.6", RTLD_NOW);
    MUST(library != NULL);
    function cube_root = look_up(library, "cbrt");
    MUST(cube_root != NULL);
    total += cube_root(1.0 + rank + round_);
    meet();
    MUST(dlclose(library) == 0);
    say("total %.17g", total);
}

MAIN(content)
