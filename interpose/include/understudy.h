/* understudy.h: optional calls with which a program passes information to
 * understudy and queries the state of its protection.
 *
 * All functions call MPI_Pcontrol, which has no effect without understudy. A
 * program that uses this file is linked as usual and runs with any MPI library.
 * Languages without this file call MPI_Pcontrol with the codes below:
 * MPI_Pcontrol(75001) is understudy_point.
 *
 * The functions may be called between MPI_Init and MPI_Finalize, by the thread
 * that uses MPI.
 */
#ifndef UNDERSTUDY_H
#define UNDERSTUDY_H

#include <mpi.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Levels of MPI_Pcontrol. */
#define UNDERSTUDY_POINT 75001
#define UNDERSTUDY_CHECKPOINT 75002
#define UNDERSTUDY_HOLD 75003
#define UNDERSTUDY_RELEASE 75004
#define UNDERSTUDY_ASK 75005
#define UNDERSTUDY_DISCARD 75006
#define UNDERSTUDY_EXCLUDE 75007
#define UNDERSTUDY_INCLUDE 75008
#define UNDERSTUDY_RECOMPUTE 75009
#define UNDERSTUDY_REVERSIBLE 75010
#define UNDERSTUDY_STEP 75011

/* Permits a checkpoint here, as a collective operation over all workers does.
 * Intended for loops without such an operation. Collective over MPI_COMM_WORLD,
 * but no process waits unless a checkpoint is due. */
static inline void understudy_point(void)
{
    (void)MPI_Pcontrol(UNDERSTUDY_POINT);
}

/* Takes a checkpoint here, independently of the interval. Collective over
 * MPI_COMM_WORLD. */
static inline void understudy_checkpoint(void)
{
    (void)MPI_Pcontrol(UNDERSTUDY_CHECKPOINT);
}

/* Inhibits checkpoints of all processes from this call to the matching
 * understudy_release. Calls may be nested. Local. */
static inline void understudy_hold(void)
{
    (void)MPI_Pcontrol(UNDERSTUDY_HOLD);
}

static inline void understudy_release(void)
{
    (void)MPI_Pcontrol(UNDERSTUDY_RELEASE);
}

/* Declares that the content of this memory is not needed after the next point
 * (or collective operation over all workers) until it is overwritten, and that
 * it is not written before that point. A checkpoint at that point omits it;
 * after a recovery it is zero. Local. Only whole pages are omitted, so a large
 * part of a small array may be saved. UNDERSTUDY_POISON=1 detects wrong
 * declarations. */
static inline void understudy_discard(const void *memory, size_t bytes)
{
    (void)MPI_Pcontrol(UNDERSTUDY_DISCARD, memory, bytes);
}

/* Excludes this memory from checkpoints until it is included again. After a
 * recovery it is zero. Local. */
static inline void understudy_exclude(const void *memory, size_t bytes)
{
    (void)MPI_Pcontrol(UNDERSTUDY_EXCLUDE, memory, bytes);
}

static inline void understudy_include(const void *memory, size_t bytes)
{
    (void)MPI_Pcontrol(UNDERSTUDY_INCLUDE, memory, bytes);
}

/* Registers a function that recomputes this memory from other memory. At any
 * checkpoint from this call on, `make(memory, bytes, argument)` must produce
 * exactly the bytes that the memory contains at that checkpoint. Checkpoints
 * omit the memory, and after a recovery each process calls the function before
 * the program resumes. Local. Regions are recomputed in the order of these
 * calls. Call this function with a NULL function before the content changes,
 * and before the memory is freed.
 *
 * `make` runs while the rest of the program is stopped. It must not communicate
 * (which ends the job with a message), allocate or free memory, use
 * thread-local data or a device, write files, or end the program.
 * UNDERSTUDY_POISON=1 also calls it at every checkpoint, and reports any
 * difference from the previous content. Only whole pages are omitted, as
 * above. */
static inline void understudy_recompute(void *memory, size_t bytes, void (*make)(void *memory, size_t bytes, void *argument),
                                        void *argument)
{
    (void)MPI_Pcontrol(UNDERSTUDY_RECOMPUTE, memory, bytes, make, argument);
}

/* Registers a function that undoes the steps in which the program changes this
 * memory. After a failure, each surviving process calls `reverse` to return to
 * the last checkpoint, and needs no copy of its own memory. A replacement gets
 * the memory from the replica that another process stores. Local. Call this
 * function with a NULL function before the memory is freed.
 *
 * understudy_step(k) declares that step k is complete; steps have consecutive
 * numbers. Checkpoints must be taken between that call and the next step (see
 * understudy_hold, if a step contains collective operations). Local.
 *
 * reverse(memory, bytes, step, is_partial, argument) is called
 *   - once with is_partial = 1 and the number after that of the last complete
 *     step: it undoes the part of that step that has been done, which may be
 *     nothing or all of it; the program must record that part in its own
 *     variables;
 *   - then for each complete step, beginning with the last one, with
 *     is_partial = 0.
 * Steps are undone one after the other, each in all regions, in the reverse
 * order of the calls that registered them. The function returns 0, or any other
 * value if it cannot undo the step.
 *
 * All other memory has the content that it had when the failure was detected.
 * For example, data that was received since the checkpoint can be kept there,
 * outside of the region. All data that steps change and need, including the
 * state of random number generators, must be in a region or be available
 * otherwise.
 *
 * The result is compared with checksums of the checkpoint. If a single bit
 * differs, the memory is fetched from the other process, and this process keeps
 * copies from then on. Integers and exact operations profit from this function,
 * operations that round do not. The function must not call MPI, allocate or
 * free memory, print, use other threads or a device, and must leave only by
 * returning. It is stopped, and the memory is fetched, if it violates this,
 * causes a fatal signal, or takes longer than two seconds plus three times the
 * time that the program has run since the checkpoint. UNDERSTUDY_POISON=1 also
 * calls it at every checkpoint, restores the region, and reports if it has not
 * undone the steps since the previous checkpoint. Only whole pages count, as
 * above. */
static inline void understudy_reversible(void *memory, size_t bytes,
                                         int (*reverse)(void *memory, size_t bytes, long long step, int is_partial,
                                                        void *argument),
                                         void *argument)
{
    (void)MPI_Pcontrol(UNDERSTUDY_REVERSIBLE, memory, bytes, reverse, argument);
}

static inline void understudy_step(long long step)
{
    (void)MPI_Pcontrol(UNDERSTUDY_STEP, step);
}

/* State of the job in this process. All members are 0 without understudy. */
typedef struct understudy_state {
    /* Number of the last checkpoint that all processes have completed, or 0. */
    long long checkpoint;
    /* Time that the last checkpoint took in this process, in seconds. */
    double cost;
    /* Nonzero if the job can recover from the failure of a process. */
    int is_protected;
    /* Number of times that the job has returned to a checkpoint. */
    int recoveries;
    /* Nonzero if this process has replaced one that failed. */
    int is_substitute;
} understudy_state;

/* Returns the state of the job. Local. While the set-up phase is recorded
 * (UNDERSTUDY_STATIC=replay), this call ends the recording, because its result
 * differs between runs. */
static inline understudy_state understudy_ask(void)
{
    understudy_state state = {0, 0, 0, 0, 0};
    (void)MPI_Pcontrol(UNDERSTUDY_ASK, &state, (int)sizeof state);
    return state;
}

#ifdef __cplusplus
}
#endif

#endif
