/* Error handlers, classes, codes and texts, also of files. */
#include "check.h"

static MPI_Errhandler kept;
static MPI_Comm kept_comm = MPI_COMM_NULL;
static int called, last_code, added_class, added_code;

static void handler(MPI_Comm *comm, int *code, ...)
{
    int class;
    MPI_Error_class(*code, &class);
    called++;
    last_code = class;
    say("handler: class %d, own %d", class, *comm == kept_comm);
}

static MPI_Errhandler of_files;
static int file_errors;

static void file_handler(MPI_File *file, int *code, ...)
{
    file_errors++;
    CHECK(*file == MPI_FILE_NULL && *code != MPI_SUCCESS);
}

static int class_of(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class;
}

static void handlers(void)
{
    MPI_Errhandler now;
    MPI_Comm copy;
    int value = 0;
    MPI_Comm_get_errhandler(kept_comm, &now);
    CHECK(now == kept);
    MPI_Errhandler_free(&now);
    called = 0;
    int rc = MPI_Send(&value, 1, MPI_INT, size + 5, 0, kept_comm);
    say("rank: %d, called %d", class_of(rc), called);
    rc = MPI_Send(&value, -1, MPI_INT, 0, 0, kept_comm);
    say("count: %d, called %d", class_of(rc), called);
    rc = MPI_Send(&value, 1, MPI_DATATYPE_NULL, 0, 0, kept_comm);
    say("type: %d, called %d", class_of(rc), called);
    rc = MPI_Send(&value, 1, MPI_INT, 0, -77, kept_comm);
    say("tag: %d, called %d", class_of(rc), called);
    MPI_Request request;
    rc = MPI_Recv_init(&value, -1, MPI_INT, 0, 0, kept_comm, &request);
    say("count of a request: %d, called %d", class_of(rc), called);
    rc = MPI_Bsend_init(&value, 1, MPI_INT, size + 5, 0, kept_comm, &request);
    say("rank of a request: %d, called %d", class_of(rc), called);
    rc = MPI_Bcast(&value, 1, MPI_INT, size + 1, kept_comm);
    say("root: %d, called %d", class_of(rc), called);
    meet();
    MPI_Comm_dup(kept_comm, &copy);
    MPI_Comm_get_errhandler(copy, &now);
    CHECK(now == kept);
    MPI_Errhandler_free(&now);
    MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
    meet();
    MPI_Comm_get_errhandler(copy, &now);
    CHECK(now == MPI_ERRORS_RETURN);
    rc = MPI_Recv(&value, 1, MPI_INT, size + 5, 0, copy, MPI_STATUS_IGNORE);
    say("returned: %d, called %d", class_of(rc), called);
    MPI_Comm_call_errhandler(kept_comm, MPI_ERR_TRUNCATE);
    say("by hand: %d", called);
    MPI_Comm_free(&copy);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &now);
    CHECK(now == MPI_ERRORS_ARE_FATAL);
}

/* A message that is too long: the error belongs to the request's communicator. */
static void truncated(void)
{
    int out[4] = {1, 2, 3, round_}, in[4] = {0, 0, 0, 0};
    MPI_Request requests[2];
    MPI_Status status, statuses[2];
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    called = 0;
    MPI_Irecv(in, 2, MPI_INT, left, 3, kept_comm, &requests[0]);
    meet();
    MPI_Send(out, 4, MPI_INT, right, 3, kept_comm);
    int rc = MPI_Wait(&requests[0], &status);
    say("wait: %d, handler %d %d, null %d", class_of(rc), called, last_code, requests[0] == MPI_REQUEST_NULL);
    MPI_Irecv(in, 4, MPI_INT, left, 4, kept_comm, &requests[0]);
    MPI_Irecv(in, 1, MPI_INT, left, 5, kept_comm, &requests[1]);
    meet();
    MPI_Send(out, 4, MPI_INT, right, 4, kept_comm);
    MPI_Send(out, 4, MPI_INT, right, 5, kept_comm);
    rc = MPI_Waitall(2, requests, statuses);
    say("waitall: %d, handler %d %d, errors %d %d", class_of(rc), called, last_code, class_of(statuses[0].MPI_ERROR),
        class_of(statuses[1].MPI_ERROR));
    MPI_Isend(out, 4, MPI_INT, right, 6, kept_comm, &requests[0]);
    meet();
    rc = MPI_Recv(in, 3, MPI_INT, left, 6, kept_comm, &status);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    say("recv: %d, handler %d %d, from %d", class_of(rc), called, last_code, status.MPI_SOURCE);
    meet();
}

/*
 * Some ranks make a mistake in a collective over all ranks and then repeat it
 * correctly: the wrong call has reached no other rank.
 */
static void mistaken(void)
{
    int one = 1, all = 0, rc = MPI_SUCCESS;
    if (rank % 2 == round_ % 2)
        rc = MPI_Allreduce(&one, &all, -1, MPI_INT, MPI_SUM, kept_comm);
    say("mistaken: %d", class_of(rc));
    MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, kept_comm);
    CHECK(all == size);
}

/* One half of an exchange is wrong: nothing is received, then or later. */
static void half_an_exchange(void)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    int value = rank + round_, untouched = -1, got = -1;
    int rc = MPI_Sendrecv(&value, 1, MPI_INT, size + 5, 9, &untouched, 1, MPI_INT, left, 9, kept_comm, MPI_STATUS_IGNORE);
    say("exchange with nobody: %d", class_of(rc));
    meet();
    MPI_Sendrecv(&value, 1, MPI_INT, right, 9, &got, 1, MPI_INT, left, 9, kept_comm, MPI_STATUS_IGNORE);
    CHECK(got == left + round_ && untouched == -1);
}

/* MPI_COMM_NULL has no error handler. */
static void no_communicator(void)
{
    int count, other;
    MPI_Group group;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    say("size: %d", class_of(MPI_Comm_size(MPI_COMM_NULL, &count)));
    say("compare: %d", class_of(MPI_Comm_compare(MPI_COMM_SELF, MPI_COMM_NULL, &other)));
    say("group: %d", class_of(MPI_Comm_group(MPI_COMM_NULL, &group)));
    say("send: %d", class_of(MPI_Send(&count, 1, MPI_INT, 0, 0, MPI_COMM_NULL)));
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/*
 * Without an open file, errors are those of MPI_FILE_NULL; they are returned
 * unless the program changes the handler.
 */
static void files(void)
{
    MPI_File file;
    MPI_Errhandler now;
    file_errors = 0;
    MPI_File_get_errhandler(MPI_FILE_NULL, &now);
    CHECK(now == (round_ % 2 ? of_files : MPI_ERRORS_RETURN));
    MPI_Errhandler_free(&now);
    CHECK(MPI_File_open(MPI_COMM_SELF, "/no/such/directory/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &file) != MPI_SUCCESS);
    say("open: %d calls", file_errors);
    CHECK(MPI_File_delete("/no/such/directory/file", MPI_INFO_NULL) != MPI_SUCCESS);
    say("delete: %d calls", file_errors);
    file = MPI_FILE_NULL;
    CHECK(MPI_File_close(&file) != MPI_SUCCESS);
    say("close: %d calls", file_errors);
    CHECK(MPI_File_write(MPI_FILE_NULL, &file_errors, 1, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS);
    say("write: %d calls", file_errors);
    say("a communicator's: %d", class_of(MPI_File_set_errhandler(MPI_FILE_NULL, kept)));
    say("a file's: %d", class_of(MPI_Comm_set_errhandler(kept_comm, of_files)));
    CHECK(MPI_File_f2c(MPI_File_c2f(MPI_FILE_NULL)) == MPI_FILE_NULL);
    MPI_File_set_errhandler(MPI_FILE_NULL, round_ % 2 ? MPI_ERRORS_RETURN : of_files);
}

static void codes(void)
{
    char text[MPI_MAX_ERROR_STRING];
    int length, class;
    for (int code = 0; code <= MPI_ERR_LASTCODE; code += 7) {
        MPI_Error_string(code, text, &length);
        MPI_Error_class(code, &class);
        say("%d: class %d, %s", code, class, text);
    }
    MPI_Error_string(added_code, text, &length);
    MPI_Error_class(added_code, &class);
    say("added: %d %d %s", added_code - added_class, class == added_class, text);
    int *last, flag;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag);
    CHECK(flag && *last >= added_code);
    last_code = 0;
    MPI_Comm_call_errhandler(kept_comm, added_code);
    CHECK(last_code == added_class);
    CHECK(MPI_Errhandler_f2c(MPI_Errhandler_c2f(kept)) == kept);
    CHECK(MPI_Errhandler_f2c(MPI_Errhandler_c2f(MPI_ERRORS_RETURN)) == MPI_ERRORS_RETURN);
}

static void content(void)
{
    if (round_ == 0) {
        MPI_Comm_create_errhandler(handler, &kept);
        MPI_File_create_errhandler(file_handler, &of_files);
        MPI_Comm_dup(MPI_COMM_WORLD, &kept_comm);
        MPI_Comm_set_errhandler(kept_comm, kept);
        MPI_Add_error_class(&added_class);
        MPI_Add_error_code(added_class, &added_code);
        MPI_Add_error_string(added_code, "a code of the program");
    }
    handlers();
    half_an_exchange();
    mistaken();
    no_communicator();
    files();
    truncated();
    codes();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    MPI_Errhandler_free(&kept);
    MPI_Errhandler_free(&of_files);
    MPI_Comm_free(&kept_comm);
    MPI_Finalize();
    return 0;
}
