/*
 * Texts as long as the constants of mpi.h permit, and longer texts: names, keys and
 * values, texts of error codes.
 */
#include "check.h"

enum { LONGEST = 1100 };

static MPI_Comm comm, longer_comm;
static MPI_Datatype type;
static MPI_Win win;
static MPI_Info info;
static int class, codes[2];

/* A text of `length` characters, each of which depends on `salt`. */
static const char *text(int length, int salt)
{
    static char room[LONGEST + 1];
    for (int i = 0; i < length; i++)
        room[i] = 'a' + (i * 7 + i / 26 + salt) % 26;
    room[length] = 0;
    return room;
}

static void say_text(const char *what, int rc, const char *found, int length)
{
    uint64_t sum = 14695981039346656037u;
    for (const char *c = found; *c; c++)
        sum = (sum ^ (unsigned char)*c) * 1099511628211u;
    say("%s: %d, length %d of %d, %016llx", what, rc != MPI_SUCCESS, length, (int)strlen(found), (unsigned long long)sum);
}

static void name_all(int salt)
{
    MPI_Comm_set_name(comm, text(MPI_MAX_OBJECT_NAME - 1, salt));
    MPI_Comm_set_name(longer_comm, text(MPI_MAX_OBJECT_NAME + 20, salt));
    MPI_Type_set_name(type, text(MPI_MAX_OBJECT_NAME + 20, salt));
    MPI_Win_set_name(win, text(MPI_MAX_OBJECT_NAME + 20, salt));
}

static void say_all(void)
{
    char name[LONGEST];
    int length, rc, keys;
    rc = MPI_Comm_get_name(comm, name, &length);
    say_text("communicator", rc, name, length);
    rc = MPI_Comm_get_name(longer_comm, name, &length);
    say_text("communicator, cut", rc, name, length);
    rc = MPI_Type_get_name(type, name, &length);
    say_text("datatype, cut", rc, name, length);
    rc = MPI_Win_get_name(win, name, &length);
    say_text("window, cut", rc, name, length);
    for (int i = 0; i < 2; i++) {
        rc = MPI_Error_string(codes[i], name, &length);
        say_text("code", rc, name, length);
    }
    MPI_Info copy;
    MPI_Info_dup(info, &copy);
    MPI_Info_get_nkeys(copy, &keys);
    say("%d keys", keys);
    for (int i = 0; i < keys; i++) {
        char value[MPI_MAX_INFO_VAL + 1];
        int flag = 0;
        rc = MPI_Info_get_nthkey(copy, i, name);
        say_text("key", rc, name, (int)strlen(name));
        rc = MPI_Info_get_valuelen(copy, name, &length, &flag);
        MPI_Info_get(copy, name, MPI_MAX_INFO_VAL, value, &flag);
        say_text("value", rc, value, flag ? length : -1);
    }
    MPI_Info_free(&copy);
}

static void content(void)
{
    MPI_Comm again;
    char name[LONGEST];
    int length, rc;
    say_all();
    meet();
    name_all(round_);
    meet();
    say_all();
    /* The duplicate may get the handle of the communicator that the previous round freed. */
    MPI_Comm_dup(longer_comm, &again);
    MPI_Comm_set_name(again, text(MPI_MAX_OBJECT_NAME, round_));
    meet();
    rc = MPI_Comm_get_name(again, name, &length);
    say_text("short-lived", rc, name, length);
    MPI_Comm_free(&again);
    rc = MPI_Get_processor_name(name, &length);
    CHECK(rc == MPI_SUCCESS && length == (int)strlen(name));
    rc = MPI_Error_string(MPI_ERR_RMA_RANGE, name, &length);
    say_text("the library's", rc, name, length);
}

int main(int argc, char **argv)
{
    int longs[] = {MPI_MAX_INFO_KEY - 1, MPI_MAX_INFO_KEY / 2, 37};
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    start_rounds(argc, argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &longer_comm);
    MPI_Type_contiguous(3, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Add_error_class(&class);
    for (int i = 0; i < 2; i++) {
        MPI_Add_error_code(class, &codes[i]);
        say("text of %d: %d", i, MPI_Add_error_string(codes[i], text(MPI_MAX_ERROR_STRING - 1 + 9 * i, i)) != MPI_SUCCESS);
    }
    MPI_Info_create(&info);
    for (int i = 0; i < 3; i++) {
        char key[LONGEST];
        if (longs[i] >= MPI_MAX_INFO_KEY)
            continue;
        strcpy(key, text(longs[i], i));
        say("key of %d: %d", longs[i], MPI_Info_set(info, key, text(MPI_MAX_INFO_VAL - 1, 5 + i)) != MPI_SUCCESS);
    }
    name_all(3);
    all_rounds(content);
    MPI_Win_free(&win);
    MPI_Type_free(&type);
    MPI_Comm_free(&longer_comm);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
