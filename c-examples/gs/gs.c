#include "gs.h"

#include <float.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_SETUP = 7101, TAG_EXCHANGE = 7102 };

/* One entry of the caller's vector that takes part. */
typedef struct {
    long long id;
    size_t position;
} occurrence;

/* "Rank `rank` has a copy of `id`": record that is exchanged in the setup phase. */
typedef struct {
    long long id;
    int rank;
} sharer;

/* One rank with which this one exchanges.  `slots[k]` is the k-th shared id, ids
 * ascending, as an index into the list of local ids.  Both sides sort equally, so
 * that the messages need not contain ids. */
typedef struct {
    int rank;
    int count;
    int *slots;
    double *outgoing;
    double *incoming;
} neighbour;

struct gs_handle {
    MPI_Comm comm; /* own duplicate: no clash with the caller's tags */
    int rank;

    size_t occurrences; /* caller's entries, grouped by id */
    occurrence *occurrence;
    size_t slots; /* distinct ids here; slot s owns first[s]..first[s + 1] */
    size_t *first;
    double *combined;
    double *mine;

    int neighbours;
    neighbour *neighbour;
    MPI_Request *requests;

    long long global_count;
};

static void *allocate(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    if (!p) {
        fprintf(stderr, "gs: out of memory (%zu x %zu bytes)\n", count, size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return p;
}

static int compare_occurrences(const void *a, const void *b)
{
    const occurrence *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

static int by_id_then_rank(const void *a, const void *b)
{
    const sharer *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static int by_rank_then_id(const void *a, const void *b)
{
    const sharer *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Exclusive prefix sum of `counts` into `offsets`; returns the total. */
static int prefix_sum(const int *counts, int *offsets, int n)
{
    long long total = 0;
    for (int i = 0; i < n; i++) {
        offsets[i] = (int)total;
        total += counts[i];
    }
    if (total > INT_MAX) {
        fprintf(stderr, "gs: more than %d shared entries on one rank\n", INT_MAX);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return (int)total;
}

/* The MPI type of a `sharer`, with the padding of the C struct. */
static MPI_Datatype sharer_type(void)
{
    int lengths[2] = {1, 1};
    MPI_Aint displacements[2] = {offsetof(sharer, id), offsetof(sharer, rank)};
    MPI_Datatype types[2] = {MPI_LONG_LONG, MPI_INT};
    MPI_Datatype packed, type;

    MPI_Type_create_struct(2, lengths, displacements, types, &packed);
    MPI_Type_create_resized(packed, 0, sizeof(sharer), &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&packed);
    return type;
}

/* Groups the caller's entries by id. */
static void group_local(gs_handle *gs, const long long *ids, size_t n)
{
    gs->occurrence = allocate(n, sizeof *gs->occurrence);
    for (size_t i = 0; i < n; i++)
        if (ids[i] != 0)
            gs->occurrence[gs->occurrences++] = (occurrence){ids[i], i};
    qsort(gs->occurrence, gs->occurrences, sizeof *gs->occurrence, compare_occurrences);

    gs->first = allocate(gs->occurrences + 1, sizeof *gs->first);
    for (size_t k = 0; k < gs->occurrences; k++)
        if (k == 0 || gs->occurrence[k].id != gs->occurrence[k - 1].id)
            gs->first[gs->slots++] = k;
    gs->first[gs->slots] = gs->occurrences;

    gs->combined = allocate(gs->slots, sizeof *gs->combined);
    gs->mine = allocate(gs->slots, sizeof *gs->mine);
}

static long long slot_id(const gs_handle *gs, size_t slot)
{
    return gs->occurrence[gs->first[slot]].id;
}

static size_t find_slot(const gs_handle *gs, long long id)
{
    size_t low = 0, high = gs->slots;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (slot_id(gs, middle) < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/*
 * Every id has a home rank (id modulo number of ranks).  Every rank sends its ids
 * to their homes.  Returns the records that this rank has received as a home,
 * ordered by id and then rank.
 */
static sharer *tell_homes(const gs_handle *gs, int size, MPI_Datatype type, int *heard)
{
    int *send_counts = allocate(size, sizeof(int)), *send_at = allocate(size, sizeof(int));
    int *recv_counts = allocate(size, sizeof(int)), *recv_at = allocate(size, sizeof(int));
    int *fill = allocate(size, sizeof(int));

    for (size_t s = 0; s < gs->slots; s++)
        send_counts[slot_id(gs, s) % size]++;
    MPI_Alltoall(send_counts, 1, MPI_INT, recv_counts, 1, MPI_INT, gs->comm);

    int to_send = prefix_sum(send_counts, send_at, size);
    *heard = prefix_sum(recv_counts, recv_at, size);

    sharer *outgoing = allocate(to_send, sizeof *outgoing);
    sharer *incoming = allocate(*heard, sizeof *incoming);
    for (size_t s = 0; s < gs->slots; s++) {
        int home = (int)(slot_id(gs, s) % size);
        outgoing[send_at[home] + fill[home]++] = (sharer){slot_id(gs, s), gs->rank};
    }
    MPI_Alltoallv(outgoing, send_counts, send_at, type, incoming, recv_counts, recv_at, type, gs->comm);
    qsort(incoming, *heard, sizeof *incoming, by_id_then_rank);

    free(send_counts);
    free(send_at);
    free(recv_counts);
    free(recv_at);
    free(fill);
    free(outgoing);
    return incoming;
}

/*
 * The homes answer: for every id with more than one copy, each rank that has one
 * gets the list of the others.  Returns the records that this rank has received,
 * ordered by rank and then id, which is the order of the neighbour lists.
 */
static sharer *answer_holders(const gs_handle *gs, int size, MPI_Datatype type, const sharer *known, int n, int *told)
{
    int *send_counts = allocate(size, sizeof(int)), *send_at = allocate(size, sizeof(int));
    int *recv_counts = allocate(size, sizeof(int)), *recv_at = allocate(size, sizeof(int));
    int *fill = allocate(size, sizeof(int));

    for (int begin = 0, end; begin < n; begin = end) {
        for (end = begin; end < n && known[end].id == known[begin].id; end++)
            ;
        for (int k = begin; k < end; k++)
            send_counts[known[k].rank] += end - begin - 1;
    }
    int to_send = prefix_sum(send_counts, send_at, size);
    sharer *outgoing = allocate(to_send, sizeof *outgoing);
    for (int begin = 0, end; begin < n; begin = end) {
        for (end = begin; end < n && known[end].id == known[begin].id; end++)
            ;
        for (int to = begin; to < end; to++)
            for (int other = begin; other < end; other++)
                if (other != to) {
                    int rank = known[to].rank;
                    outgoing[send_at[rank] + fill[rank]++] = known[other];
                }
    }

    MPI_Alltoall(send_counts, 1, MPI_INT, recv_counts, 1, MPI_INT, gs->comm);
    *told = prefix_sum(recv_counts, recv_at, size);
    sharer *incoming = allocate(*told, sizeof *incoming);

    /* Few ranks send data to each other: point to point. */
    MPI_Request *requests = allocate(2 * (size_t)size, sizeof *requests);
    int pending = 0;
    for (int r = 0; r < size; r++)
        if (recv_counts[r] > 0)
            MPI_Irecv(incoming + recv_at[r], recv_counts[r], type, r, TAG_SETUP, gs->comm, &requests[pending++]);
    for (int r = 0; r < size; r++)
        if (send_counts[r] > 0)
            MPI_Isend(outgoing + send_at[r], send_counts[r], type, r, TAG_SETUP, gs->comm, &requests[pending++]);
    MPI_Waitall(pending, requests, MPI_STATUSES_IGNORE);
    qsort(incoming, *told, sizeof *incoming, by_rank_then_id);

    free(send_counts);
    free(send_at);
    free(recv_counts);
    free(recv_at);
    free(fill);
    free(outgoing);
    free(requests);
    return incoming;
}

static void make_neighbours(gs_handle *gs, const sharer *told, int n)
{
    for (int k = 0; k < n; k++)
        gs->neighbours += k == 0 || told[k].rank != told[k - 1].rank;
    gs->neighbour = allocate(gs->neighbours, sizeof *gs->neighbour);
    gs->requests = allocate(2 * (size_t)gs->neighbours, sizeof *gs->requests);

    neighbour *next = gs->neighbour;
    for (int begin = 0, end; begin < n; begin = end) {
        for (end = begin; end < n && told[end].rank == told[begin].rank; end++)
            ;
        next->rank = told[begin].rank;
        next->count = end - begin;
        next->slots = allocate(next->count, sizeof *next->slots);
        next->outgoing = allocate(next->count, sizeof *next->outgoing);
        next->incoming = allocate(next->count, sizeof *next->incoming);
        for (int k = begin; k < end; k++)
            next->slots[k - begin] = (int)find_slot(gs, told[k].id);
        next++;
    }
}

gs_handle *gs_setup(const long long *ids, size_t n, MPI_Comm comm)
{
    int valid = 1, all_valid, size;
    for (size_t i = 0; i < n; i++)
        valid &= ids[i] >= 0;
    MPI_Allreduce(&valid, &all_valid, 1, MPI_INT, MPI_LAND, comm);
    if (!all_valid)
        return NULL;

    gs_handle *gs = allocate(1, sizeof *gs);
    MPI_Comm_dup(comm, &gs->comm);
    MPI_Comm_rank(gs->comm, &gs->rank);
    MPI_Comm_size(gs->comm, &size);
    group_local(gs, ids, n);

    MPI_Datatype type = sharer_type();
    int heard, told;
    sharer *known = tell_homes(gs, size, type, &heard);
    sharer *others = answer_holders(gs, size, type, known, heard, &told);
    MPI_Type_free(&type);
    make_neighbours(gs, others, told);

    long long homed = 0;
    for (int k = 0; k < heard; k++)
        homed += k == 0 || known[k].id != known[k - 1].id;
    MPI_Allreduce(&homed, &gs->global_count, 1, MPI_LONG_LONG, MPI_SUM, gs->comm);

    free(known);
    free(others);
    return gs;
}

static double combine(double a, double b, gs_reduction reduction)
{
    switch (reduction) {
    case GS_MIN:
        return b < a ? b : a;
    case GS_MAX:
        return b > a ? b : a;
    case GS_SUM:
        break;
    }
    return a + b;
}

static void combine_incoming(gs_handle *gs, const neighbour *from, gs_reduction reduction)
{
    for (int k = 0; k < from->count; k++) {
        double *value = &gs->combined[from->slots[k]];
        *value = combine(*value, from->incoming[k], reduction);
    }
}

void gs_op(gs_handle *gs, double *values, gs_reduction reduction)
{
    const double neutral = reduction == GS_SUM ? 0.0 : reduction == GS_MIN ? DBL_MAX : -DBL_MAX;
    int pending = 0;

    for (int k = 0; k < gs->neighbours; k++) {
        neighbour *from = &gs->neighbour[k];
        MPI_Irecv(from->incoming, from->count, MPI_DOUBLE, from->rank, TAG_EXCHANGE, gs->comm,
                  &gs->requests[pending++]);
    }

    /* Contribution of this rank to each id. */
    for (size_t s = 0; s < gs->slots; s++) {
        double value = neutral;
        for (size_t k = gs->first[s]; k < gs->first[s + 1]; k++)
            value = combine(value, values[gs->occurrence[k].position], reduction);
        gs->mine[s] = value;
        gs->combined[s] = neutral;
    }
    for (int k = 0; k < gs->neighbours; k++) {
        neighbour *to = &gs->neighbour[k];
        for (int i = 0; i < to->count; i++)
            to->outgoing[i] = gs->mine[to->slots[i]];
        MPI_Isend(to->outgoing, to->count, MPI_DOUBLE, to->rank, TAG_EXCHANGE, gs->comm, &gs->requests[pending++]);
    }
    MPI_Waitall(pending, gs->requests, MPI_STATUSES_IGNORE);

    /* In rank order, including this rank: an equal order in every rank with the id. */
    int next = 0;
    for (; next < gs->neighbours && gs->neighbour[next].rank < gs->rank; next++)
        combine_incoming(gs, &gs->neighbour[next], reduction);
    for (size_t s = 0; s < gs->slots; s++)
        gs->combined[s] = combine(gs->combined[s], gs->mine[s], reduction);
    for (; next < gs->neighbours; next++)
        combine_incoming(gs, &gs->neighbour[next], reduction);

    for (size_t s = 0; s < gs->slots; s++)
        for (size_t k = gs->first[s]; k < gs->first[s + 1]; k++)
            values[gs->occurrence[k].position] = gs->combined[s];
}

int gs_neighbours(const gs_handle *gs)
{
    return gs->neighbours;
}

long long gs_global_count(const gs_handle *gs)
{
    return gs->global_count;
}

void gs_free(gs_handle *gs)
{
    if (!gs)
        return;
    for (int k = 0; k < gs->neighbours; k++) {
        free(gs->neighbour[k].slots);
        free(gs->neighbour[k].outgoing);
        free(gs->neighbour[k].incoming);
    }
    free(gs->neighbour);
    free(gs->requests);
    free(gs->occurrence);
    free(gs->first);
    free(gs->combined);
    free(gs->mine);
    MPI_Comm_free(&gs->comm);
    free(gs);
}
