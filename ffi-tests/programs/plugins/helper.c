// The dependency of counter.c; its thread-local data are in static storage
// (initial-exec).
#include "plugins.h"

static __thread long steps __attribute__((tls_model("initial-exec"))) = 7;

long helper_step(long by)
{
    steps = (steps * 31 + by) % 1000003;
    return steps;
}
