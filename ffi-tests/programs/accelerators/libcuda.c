/* A replacement for NVIDIA's driver library.
 *
 * "Device memory" is an unnamed file that is never mapped, so no memory image
 * contains its data. On request, a thread of the library copies the data into
 * ordinary memory and closes the file; on a second request, it makes a new file
 * and copies the data back. Device addresses do not change.
 *
 * ACCELERATOR_FAILS=NAME:ERROR:TIMES makes a checkpoint function fail after
 * TIMES calls. ACCELERATOR_KEEPS=pipe keeps a pipe open, as a driver might. */
#define _GNU_SOURCE
#include "cuda.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BASE 0xd00000000ul
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int is_initialised, state, wanted, file = -1, has_context;
static size_t length;
static char *saved;

/* Begins a call: waits while the process is locked. */
static void enter(void)
{
    pthread_mutex_lock(&lock);
    while (state != RUNNING)
        pthread_cond_wait(&changed, &lock);
}

static CUresult leave(CUresult result)
{
    pthread_mutex_unlock(&lock);
    return result;
}

static int move(int out)
{
    char *at = saved;
    for (size_t done = 0; done < length;) {
        ssize_t n = out ? pread(file, at + done, length - done, done) : pwrite(file, at + done, length - done, done);
        if (n <= 0)
            return FAILED;
        done += n;
    }
    return out ? CHECKPOINTED : LOCKED;
}

/* Calls ftruncate without the C library, since understudy would record the
 * C library's call as an effect on a file. */
static int resize(size_t bytes)
{
    return syscall(SYS_ftruncate, file, bytes);
}

static int make_device(void)
{
    file = memfd_create("device", MFD_CLOEXEC);
    return file >= 0 && resize(length) == 0;
}

/* Main function of the driver's own thread. */
static void *serve(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    while (state != FAILED) {
        while (wanted == state || wanted == RUNNING)
            pthread_cond_wait(&changed, &lock);
        if (wanted == CHECKPOINTED) {
            saved = malloc(length + 1);
            state = move(1);
            close(file);
            file = -1;
        } else if (wanted == LOCKED) {
            state = make_device() ? move(0) : FAILED;
            free(saved);
            saved = NULL;
        }
        wanted = state;
        pthread_cond_broadcast(&changed);
    }
    return NULL;
}

CUresult cuInit(unsigned flags)
{
    pthread_t thread;
    enter();
    if (is_initialised || flags)
        return leave(flags ? INVALID_VALUE : SUCCESS);
    if (getenv("ACCELERATOR_KEEPS")) {
        int ends[2];
        if (pipe(ends))
            return leave(OUT_OF_MEMORY);
    }
    if (!make_device() || pthread_create(&thread, NULL, serve, NULL))
        return leave(OUT_OF_MEMORY);
    is_initialised = 1;
    return leave(SUCCESS);
}

CUresult cuDriverGetVersion(int *version)
{
#ifdef OLD
    *version = 12040;
#else
    *version = 12080;
#endif
    return SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    enter();
    *count = 1;
    return leave(is_initialised ? SUCCESS : NOT_INITIALIZED);
}

CUresult cuCtxCreate_v2(void **context, unsigned flags, int device)
{
    enter();
    if (!is_initialised || flags || device)
        return leave(is_initialised ? INVALID_VALUE : NOT_INITIALIZED);
    has_context = 1;
    *context = &has_context;
    return leave(SUCCESS);
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    enter();
    if (!has_context || resize(length + bytes))
        return leave(OUT_OF_MEMORY);
    *address = BASE + length;
    length += bytes;
    return leave(SUCCESS);
}

/* Frees the last allocation only: memory of this device is a stack. */
CUresult cuMemFree_v2(CUdeviceptr address)
{
    enter();
    if (address < BASE || address > BASE + length || resize(address - BASE))
        return leave(INVALID_VALUE);
    length = address - BASE;
    return leave(SUCCESS);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    enter();
    return leave(pwrite(file, from, bytes, to - BASE) == (ssize_t)bytes ? SUCCESS : INVALID_VALUE);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    enter();
    return leave(pread(file, to, bytes, from - BASE) == (ssize_t)bytes ? SUCCESS : INVALID_VALUE);
}

CUresult cuModuleLoadData(void **module, const void *text)
{
    enter();
    *module = &has_context;
    return leave(has_context && text ? SUCCESS : INVALID_VALUE);
}

CUresult cuModuleGetFunction(void **function, void *module, const char *name)
{
    enter();
    *function = module;
    return leave(strcmp(name, "step") ? INVALID_VALUE : SUCCESS);
}

/*
 * Launches the only kernel, of (data, count, round): x = 6364136223846793005 x
 * + round, for all elements.
 */
CUresult cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream,
                        void **parameters, void **extra)
{
    CUdeviceptr at = *(CUdeviceptr *)parameters[0];
    unsigned count = *(unsigned *)parameters[1];
    uint64_t round = *(uint64_t *)parameters[2], block[512];
    enter();
    if (!function || gx * bx < count || gy * gz * by * bz != 1 || shared || stream || extra)
        return leave(INVALID_VALUE);
    for (size_t done = 0, n; done < count; done += n) {
        n = count - done < 512 ? count - done : 512;
        off_t place = at - BASE + done * sizeof *block;
        if (pread(file, block, n * sizeof *block, place) != (ssize_t)(n * sizeof *block))
            return leave(INVALID_VALUE);
        for (size_t i = 0; i < n; i++)
            block[i] = 6364136223846793005u * block[i] + round;
        if (pwrite(file, block, n * sizeof *block, place) != (ssize_t)(n * sizeof *block))
            return leave(INVALID_VALUE);
    }
    return leave(SUCCESS);
}

#ifndef OLD
/* Returns the error of a function that is to fail; counts each call. */
static CUresult failure(const char *name)
{
    static int calls;
    const char *wish = getenv("ACCELERATOR_FAILS");
    size_t n = strlen(name);
    if (!wish || strncmp(wish, name, n) || wish[n] != ':')
        return SUCCESS;
    char *end;
    int error = strtol(wish + n + 1, &end, 10), before = *end ? atoi(end + 1) : 0;
    return calls++ < before ? SUCCESS : error;
}

/* Changes from one state to another, by the driver's thread if `by_thread`. */
static CUresult change(const char *name, int pid, int from, int to, int by_thread)
{
    CUresult error = pid == getpid() ? failure(name) : INVALID_VALUE;
    if (error)
        return error;
    pthread_mutex_lock(&lock);
    if (!is_initialised || state != from)
        return leave(is_initialised ? ILLEGAL_STATE : NOT_INITIALIZED);
    wanted = to;
    if (!by_thread)
        state = to;
    pthread_cond_broadcast(&changed);
    while (state != to && state != FAILED)
        pthread_cond_wait(&changed, &lock);
    return leave(state == to ? SUCCESS : ILLEGAL_STATE);
}

CUresult cuCheckpointProcessGetState(int pid, int *now)
{
    *now = state;
    return pid == getpid() ? SUCCESS : INVALID_VALUE;
}

CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *arguments)
{
    (void)arguments;
    return change(__func__, pid, RUNNING, LOCKED, 0);
}

CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointArgs *arguments)
{
    (void)arguments;
    return change(__func__, pid, LOCKED, CHECKPOINTED, 1);
}

CUresult cuCheckpointProcessRestore(int pid, CUcheckpointArgs *arguments)
{
    (void)arguments;
    return change(__func__, pid, CHECKPOINTED, LOCKED, 1);
}

CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointArgs *arguments)
{
    (void)arguments;
    return change(__func__, pid, LOCKED, RUNNING, 0);
}
#endif
