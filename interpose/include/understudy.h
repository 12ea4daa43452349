/* understudy.h: what a program may tell the layer, and ask of it. Nothing of
 * this is required.
 *
 * All goes through MPI_Pcontrol, which does nothing without the layer: a
 * program that uses this file is linked as ever and runs with any MPI. From
 * languages without this file, MPI_Pcontrol(75001) is understudy_point, and so
 * on; see the codes.
 *
 * Calls after MPI_Init and before MPI_Finalize, by the thread that uses MPI.
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

/* A checkpoint may be taken here, as at a collective over all workers: for
 * loops without any. Collective over MPI_COMM_WORLD, but nobody waits if no
 * checkpoint is due. */
static inline void understudy_point(void)
{
    (void)MPI_Pcontrol(UNDERSTUDY_POINT);
}

/* A checkpoint is taken here, whatever the interval. Collective over
 * MPI_COMM_WORLD. */
static inline void understudy_checkpoint(void)
{
    (void)MPI_Pcontrol(UNDERSTUDY_CHECKPOINT);
}

/* No checkpoint is taken, of any process, from this call to the matching
 * understudy_release (they nest). Local. */
static inline void understudy_hold(void)
{
    (void)MPI_Pcontrol(UNDERSTUDY_HOLD);
}

static inline void understudy_release(void)
{
    (void)MPI_Pcontrol(UNDERSTUDY_RELEASE);
}

/* The content of this memory is not needed behind the next point (or
 * collective over all workers), until it is written again; and it is not
 * written before that point. A checkpoint there is without it, and after a
 * recovery it is zero. Local. Whole pages count, so much of a small array may
 * be saved all the same. UNDERSTUDY_POISON=1 finds wrong claims. */
static inline void understudy_discard(const void *memory, size_t bytes)
{
    (void)MPI_Pcontrol(UNDERSTUDY_DISCARD, memory, bytes);
}

/* This memory is never saved, until it is included again: after a recovery it
 * is zero. Local. */
static inline void understudy_exclude(const void *memory, size_t bytes)
{
    (void)MPI_Pcontrol(UNDERSTUDY_EXCLUDE, memory, bytes);
}

static inline void understudy_include(const void *memory, size_t bytes)
{
    (void)MPI_Pcontrol(UNDERSTUDY_INCLUDE, memory, bytes);
}

/* `make(memory, bytes, argument)` makes all of this memory from what else is in
 * memory, at any checkpoint from here on, with the bytes that it holds there.
 * Checkpoints are without it, and after a recovery each process calls the
 * function before it goes on. Local. Regions are made in the order of these
 * calls. To be called again with a NULL function before the content becomes
 * another, and before the memory is freed.
 *
 * The function runs in a moment when the rest of the program stands still. It
 * may not communicate (that ends the job, with a message), allocate or free
 * memory, use thread-local data or a device, write files, or end the program.
 * UNDERSTUDY_POISON=1 has it called at every checkpoint, too, and tells if it
 * makes anything else than what was there. Whole pages count, as above. */
static inline void understudy_recompute(void *memory, size_t bytes, void (*make)(void *memory, size_t bytes, void *argument),
                                        void *argument)
{
    (void)MPI_Pcontrol(UNDERSTUDY_RECOMPUTE, memory, bytes, make, argument);
}

/* The program changes this memory in steps, and `reverse` undoes them. After a
 * failure each survivor goes back to the last checkpoint by that, and needs no
 * copy of this memory of its own; who takes a dead one's part has it from the
 * copy that another process holds. Local. To be called again with a NULL
 * function before the memory is freed.
 *
 * understudy_step(k) says that step k is complete: steps are numbered one by
 * one. Checkpoints belong between that call and the next step (see
 * understudy_hold, if there are collectives inside of a step). Local.
 *
 * reverse(memory, bytes, step, is_partial, argument) is called
 *   - once with the number after that of the last complete step and is_partial
 *     = 1: it undoes what has been done of that step, which may be nothing or
 *     all; how much is for the program to know, from variables of its own;
 *   - then for each complete step, the last one first, with is_partial = 0.
 * Steps are undone one after the other, each in all regions, in the opposite
 * order of their calls. It returns 0, or anything else if it cannot undo that.
 *
 * All other memory is what it was when the failure was noticed, so what has
 * been received since, say, can be kept there, beside the region. What steps
 * change and need, random number generators too, has to be in a region, or
 * known otherwise.
 *
 * What comes out is compared with checksums of the checkpoint. Unless every bit
 * is right the memory is fetched from the other process, and this process keeps
 * copies from then on: integers and exact operations gain, rounding does not.
 * The function may not call MPI, allocate or free memory, print, use other
 * threads or a device, and leaves only by returning. One that does not, causes a
 * fatal signal, or takes more than three times as long as the program has
 * since the checkpoint, and two seconds, is stopped, and the memory fetched.
 * UNDERSTUDY_POISON=1 has it called at every checkpoint, too, puts the region
 * back, and tells if it has not undone the steps since the one before.
 * Whole pages count, as above. */
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

/* What is known of the job in this process. All is 0 without the layer. */
typedef struct understudy_state {
    /* The last checkpoint that all processes have; 0: none yet. */
    long long checkpoint;
    /* For how long the last one has kept this process, in seconds. */
    double cost;
    /* Whether the death of a process would be survived. */
    int is_protected;
    /* How often the job has gone back to a checkpoint. */
    int recoveries;
    /* Whether this process has taken the part of one that died. */
    int is_substitute;
} understudy_state;

/* Local. While an initialisation phase is recorded (UNDERSTUDY_STATIC=replay)
 * it ends that record, since the answer is not the same twice. */
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
