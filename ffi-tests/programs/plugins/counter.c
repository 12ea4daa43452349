// A library with thread-local data, a constructor, a destructor, and a dependency.
#include "plugins.h"

static __thread long counts[COUNTS];
static long started;

__attribute__((constructor)) static void start(void) { started = helper_step(1); }
__attribute__((destructor)) static void end(void) { helper_step(-1); }

long counter_add(int number)
{
    counts[number % COUNTS] += number + started;
    return helper_step(counts[number % COUNTS]);
}

void *counter_place(void) { return &counts[1]; }
