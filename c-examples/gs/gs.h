/*
 * gs: a small gather-scatter library.
 *
 * Finite-element codes keep a private copy of every degree of freedom that
 * sits on the border between two ranks.  All copies carry the same global id;
 * gs_op() combines them (sum, min or max) and leaves the result in each copy.
 *
 * The library finds out by itself which ranks share what: gs_setup() talks to
 * the other ranks once, gs_op() afterwards exchanges messages with neighbours
 * only.
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
 * Collective over `comm`.  `ids[i]` is the global id of entry i of the vectors
 * that gs_op() will be given; an id of 0 marks an entry that takes no part, a
 * negative id is an error.  An id may occur several times on the same rank.
 * Returns NULL, on every rank, if some rank passed a negative id.
 */
gs_handle *gs_setup(const long long *ids, size_t n, MPI_Comm comm);

/*
 * Combines all entries of `values` with the same id, on all ranks.  The
 * contributions are combined in rank order, so every copy ends with the same
 * bits and two runs on the same number of ranks agree exactly.
 */
void gs_op(gs_handle *gs, double *values, gs_reduction reduction);

/* How many ranks this one exchanges messages with. */
int gs_neighbours(const gs_handle *gs);

/* How many distinct ids there are on all ranks together. */
long long gs_global_count(const gs_handle *gs);

/* Collective.  NULL is ignored. */
void gs_free(gs_handle *gs);

#ifdef __cplusplus
}
#endif

#endif
