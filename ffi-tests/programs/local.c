/*
 * Procedures that must not wait for other processes: a program that relies on this must
 * not hang.
 *
 *     local free | idup | idup-inter
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

/* Rank 1 has freed the communicator when rank 0 sends on it. */
static void free_early(int rank)
{
    MPI_Comm comm;
    MPI_Request request;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (rank == 1)
        MPI_Irecv(NULL, 0, MPI_INT, 0, 0, comm, &request);
    if (rank != 0)
        MPI_Comm_free(&comm);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Ssend(NULL, 0, MPI_INT, 1, 0, comm);
        MPI_Comm_free(&comm);
    }
    if (rank == 1)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Rank 1 begins to duplicate only after a message that rank 0 sends meanwhile. */
static void duplicate_late(int rank, MPI_Comm parent)
{
    MPI_Comm comm;
    MPI_Request request;
    if (rank == 1)
        MPI_Recv(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Comm_idup(parent, &comm, &request);
    if (rank == 0)
        MPI_Send(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Barrier(comm);
    MPI_Comm_free(&comm);
}

/* Duplicates an intercommunicator in that order, twice. */
static void duplicate_both(int rank)
{
    MPI_Comm half, both;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 0, &both);
    duplicate_late(rank, both);
    duplicate_late(rank, both);
    MPI_Comm_free(&both);
    MPI_Comm_free(&half);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 1 && strcmp(argv[1], "idup") == 0)
        duplicate_late(rank, MPI_COMM_WORLD);
    else if (argc > 1 && strcmp(argv[1], "idup-inter") == 0)
        duplicate_both(rank);
    else
        free_early(rank);
    if (rank == 0)
        printf("the end\n");
    MPI_Finalize();
    return 0;
}
