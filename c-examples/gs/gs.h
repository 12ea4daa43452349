/*
 * gs: a small gather-scatter library.
 *
 * Finite-element codes keep a private copy of every degree of freedom on the border
 * between two ranks.  All copies have an equal global id; gs_op() combines them
 * (sum, min or max) and stores the result into each copy.
 *
 * The library itself determines which ranks share ids: gs_setup() communicates with
 * the other ranks once, gs_op() afterwards exchanges messages with neighbours only.
 */
#ifndef GS_H
#define GS_H

#include <stddef.h>

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gs_handle gs_handle;

typedef enum { GS_SUM, GS_MIN, GS_MAX } gs_reduction;

/*
 * Collective over `comm`.  `ids[i]` is the global id of entry i of the vectors that
 * are passed to gs_op(); an id of 0 marks an entry that takes no part, a negative
 * id is an error.  An id may occur several times on a rank.  Returns NULL, on every
 * rank, if some rank passed a negative id.
 */
gs_handle *gs_setup(const long long *ids, size_t n, MPI_Comm comm);

/*
 * Combines all entries of `values` with equal ids, on all ranks.  The contributions
 * are combined in rank order, so that all copies have equal bits, and two runs on
 * an equal number of ranks agree exactly.
 */
void gs_op(gs_handle *gs, double *values, gs_reduction reduction);

/* Number of ranks with which this one exchanges messages. */
int gs_neighbours(const gs_handle *gs);

/* Number of distinct ids on all ranks together. */
long long gs_global_count(const gs_handle *gs);

/* Collective.  NULL is ignored. */
void gs_free(gs_handle *gs);

#ifdef __cplusplus
}
#endif

#endif
