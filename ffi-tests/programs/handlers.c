/*
 * The error handler for errors without an object, and for errors of objects
 * without a handler. The handler of MPI_COMM_WORLD or that of MPI_COMM_SELF is
 * called, depending on which of the two the program has set. The error classes
 * that the procedures return are recorded as well.
 */
#include "check.h"

static MPI_Comm early;
static MPI_Win window;
static MPI_Errhandler of_world, of_self, of_windows;

static void tell(const char *who, MPI_Comm comm, int code)
{
    int class;
    MPI_Error_class(code, &class);
    say("%s, on %s: class %d", who, comm == MPI_COMM_WORLD ? "the world" : comm == MPI_COMM_SELF ? "itself" : "another", class);
}

static void world_handler(MPI_Comm *comm, int *code, ...)
{
    tell("the world's", *comm, *code);
}

static void self_handler(MPI_Comm *comm, int *code, ...)
{
    tell("its own", *comm, *code);
}

static void window_handler(MPI_Win *win, int *code, ...)
{
    int class;
    MPI_Error_class(*code, &class);
    say("the window's, %d: class %d", *win == window, class);
}

#define TRY(call) do { int rc_ = (call), class_; MPI_Error_class(rc_, &class_); say("%s: %d", #call, class_); } while (0)

static void try_all(void)
{
    int value;
    MPI_Group group;
    MPI_Datatype none = MPI_DATATYPE_NULL;
    TRY(MPI_Type_size(MPI_DATATYPE_NULL, &value));
    TRY(MPI_Type_commit(&none));
    TRY(MPI_Comm_rank(MPI_COMM_NULL, &value));
    TRY(MPI_Comm_group(MPI_COMM_NULL, &group));
    TRY(MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_NULL));
    TRY(MPI_Group_size(MPI_GROUP_NULL, &value));
    TRY(MPI_Win_fence(0, MPI_WIN_NULL));
    TRY(MPI_Dims_create(7, 1, (int[]){2}));
    TRY(MPI_Send(&value, 1, MPI_INT, size + 5, 0, MPI_COMM_WORLD));
    TRY(MPI_Send(&value, 1, MPI_INT, 5, 0, MPI_COMM_SELF));
}

static void content(void)
{
    try_all();
    meet();
    MPI_Comm_set_errhandler(MPI_COMM_SELF, round_ % 2 ? MPI_ERRORS_RETURN : of_self);
    meet();
    try_all();
    TRY(MPI_Put(&round_, 1, MPI_INT, size + 5, 0, 1, MPI_INT, window));
#ifndef OPEN_MPI /* This error is fatal in Open MPI. */
    int value;
    TRY(MPI_Send(&value, 1, MPI_INT, size + 5, 0, early));
#endif
    meet();
    MPI_Comm_set_errhandler(MPI_COMM_SELF, of_self);
    MPI_Win_set_errhandler(window, round_ % 2 ? MPI_ERRORS_RETURN : of_windows);
    meet();
    TRY(MPI_Put(&round_, 1, MPI_INT, size + 5, 0, 1, MPI_INT, window));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    start_rounds(argc, argv);
    /* Made while no error handler is set. */
    MPI_Comm_dup(MPI_COMM_WORLD, &early);
    MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    MPI_Win_fence(0, window);
    MPI_Comm_create_errhandler(world_handler, &of_world);
    MPI_Comm_create_errhandler(self_handler, &of_self);
    MPI_Win_create_errhandler(window_handler, &of_windows);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, of_world);
    /* The handler of MPI_COMM_SELF is not set. */
    int value;
    TRY(MPI_Type_size(MPI_DATATYPE_NULL, &value));
    TRY(MPI_Comm_rank(MPI_COMM_NULL, &value));
    MPI_Comm_set_errhandler(MPI_COMM_SELF, of_self);
    all_rounds(content);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
    MPI_Comm_free(&early);
    MPI_Finalize();
    return 0;
}
