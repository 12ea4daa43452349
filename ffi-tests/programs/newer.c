/* Additions of MPI 4.1 and 5.0: states of many requests, buffers of communicators and
 * sessions, removal of error codes, datatypes, queries about Fortran's types. */
#include "check.h"

#ifdef OPEN_MPI /* Version 5.0 has none of them. */
int main(void)
{
    return 0;
}
#else

enum { ROOM = 4000, LONGS = 300 };

static MPI_Comm mine, from_session;
static MPI_Session session;
static char *of_process, *of_comm, of_session[ROOM];

static void states(void)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size, in[3], out[3], indices[3], index, flag, count;
    MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[3];
    statuses[0].MPI_ERROR = MPI_ERR_OTHER;
    statuses[1] = statuses[2] = statuses[0];
    MPI_Wait(&requests[1], &statuses[1]);
    MPI_Testany(3, requests, &index, &flag, &statuses[2]);
    CHECK(statuses[1].MPI_ERROR == MPI_SUCCESS && statuses[2].MPI_ERROR == MPI_SUCCESS);
    MPI_Request_get_status_any(3, requests, &index, &flag, &statuses[0]);
    say_status("any of none", &statuses[0], MPI_INT);
    CHECK(flag && index == MPI_UNDEFINED && statuses[0].MPI_ERROR == MPI_SUCCESS);
    MPI_Request_get_status_some(3, requests, &count, indices, statuses);
    CHECK(count == MPI_UNDEFINED);
    MPI_Request_get_status_all(3, requests, &flag, MPI_STATUSES_IGNORE);
    CHECK(flag);
    for (int i = 0; i < 3; i++)
        MPI_Irecv(&in[i], 1, MPI_INT, left, 20 + i, MPI_COMM_WORLD, &requests[i]);
    MPI_Request_get_status_all(3, requests, &flag, statuses);
    CHECK(!flag);
    MPI_Request_get_status_some(3, requests, &count, indices, MPI_STATUSES_IGNORE);
    CHECK(count == 0);
    MPI_Request_get_status_any(3, requests, &index, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag && index == MPI_UNDEFINED);
    meet();
    out[1] = 10 * round_ + rank;
    MPI_Send(&out[1], 1, MPI_INT, right, 21, MPI_COMM_WORLD);
    do
        MPI_Request_get_status_any(3, requests, &index, &flag, &statuses[0]);
    while (!flag);
    say_status("any", &statuses[0], MPI_INT);
    CHECK(index == 1 && in[1] == 10 * round_ + left && requests[1] != MPI_REQUEST_NULL);
    meet(); /* a completed request that the program has seen is saved */
    MPI_Request_get_status_some(3, requests, &count, indices, statuses);
    CHECK(count == 1 && indices[0] == 1 && statuses[0].MPI_TAG == 21);
    meet();
    for (int i = 0; i < 3; i += 2) {
        out[i] = 100 * round_ + i + rank;
        MPI_Send(&out[i], 1, MPI_INT, right, 20 + i, MPI_COMM_WORLD);
    }
    do
        MPI_Request_get_status_all(3, requests, &flag, statuses);
    while (!flag);
    for (int i = 0; i < 3; i++)
        say_status("all", &statuses[i], MPI_INT);
    meet();
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    CHECK(in[0] == 100 * round_ + left && in[2] == 100 * round_ + 2 + left);
}

static int class_of(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class;
}

/* Messages are buffered before and after a collective. */
static void buffers(void)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size, values[LONGS], got[LONGS], bad = 0;
    MPI_Request request;
    MPI_Status status;
    for (int part = 0; part < 2; part++) {
        for (int i = 0; i < LONGS; i++)
            values[i] = 7 * i + part + round_ + rank;
        MPI_Bsend(values, LONGS, MPI_INT, right, part, mine);
        MPI_Bsend(values, LONGS, MPI_INT, right, part, MPI_COMM_WORLD);
        memset(values, 0, sizeof values);
        meet();
    }
    /* A buffer is attached already. */
    CHECK(class_of(MPI_Comm_attach_buffer(mine, of_process, ROOM)) == MPI_ERR_OTHER);
    CHECK(class_of(MPI_Buffer_attach(of_process, -1)) == MPI_ERR_ARG);
    for (int part = 1; part >= 0; part--)
        for (int own = 0; own < 2; own++) {
            MPI_Recv(got, LONGS, MPI_INT, left, part, own ? mine : MPI_COMM_WORLD, &status);
            say_status(own ? "own" : "world", &status, MPI_INT);
            for (int i = 0; i < LONGS; i++)
                bad += got[i] != 7 * i + part + round_ + left;
        }
    CHECK(bad == 0);
    MPI_Comm_flush_buffer(mine);
    MPI_Comm_iflush_buffer(mine, &request);
    meet();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Buffer_flush();
    MPI_Buffer_iflush(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/*
 * A request that flushes a buffer completes with the buffered messages, and not before.
 * Then the buffer is empty again.
 */
static void flushes(void)
{
    enum { MANY = 1 << 18 };
    static int values[MANY], got[MANY];
    static char room[4 * MANY + 2 * MPI_BSEND_OVERHEAD];
    int right = (rank + 1) % size, left = (rank + size - 1) % size, flag, bad = 0, bytes;
    MPI_Request request;
    MPI_Comm own;
    void *back;
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    MPI_Comm_attach_buffer(own, room, sizeof room);
    MPI_Comm_iflush_buffer(own, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE); /* the buffer is empty */
    for (int part = 0; part < 2; part++) {
        for (int i = 0; i < MANY; i++)
            values[i] = 3 * i + part + round_ + rank;
        CHECK(MPI_Bsend(values, MANY, MPI_INT, right, part, own) == MPI_SUCCESS);
        MPI_Comm_iflush_buffer(own, &request);
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        CHECK(!flag);
        memset(values, 0, sizeof values);
        meet();
        MPI_Request receive;
        MPI_Irecv(got, MANY, MPI_INT, left, part, own, &receive);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(request == MPI_REQUEST_NULL);
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
        for (int i = 0; i < MANY; i++)
            bad += got[i] != 3 * i + part + round_ + left;
        meet();
    }
    CHECK(bad == 0);
    MPI_Comm_detach_buffer(own, &back, &bytes);
    MPI_Comm_free(&own);
}

/* In every fourth round, other buffers are attached. */
static void exchange_buffers(void)
{
    void *back;
    int bytes;
    MPI_Count many;
    MPI_Comm_detach_buffer(mine, &back, &bytes);
    CHECK(back == of_comm && bytes == ROOM + 1);
    MPI_Buffer_detach_c(&back, &many);
    CHECK(back == of_process && many == ROOM);
    CHECK(MPI_Buffer_detach(&back, &bytes) == MPI_SUCCESS && !back && !bytes);
    CHECK(class_of(MPI_Buffer_attach(of_process, 10)) == MPI_ERR_BUFFER);
    MPI_Buffer_detach(&back, &bytes);
    /* The session's buffer is for communicators of the session. */
    CHECK(class_of(MPI_Bsend(&round_, 1, MPI_INT, 0, 50, MPI_COMM_SELF)) == MPI_ERR_BUFFER);
    CHECK(MPI_Bsend(&round_, 1, MPI_INT, rank, 50, from_session) == MPI_SUCCESS);
    meet();
    MPI_Recv(&bytes, 1, MPI_INT, rank, 50, from_session, MPI_STATUS_IGNORE);
    CHECK(bytes == round_);
    MPI_Session_detach_buffer(session, &back, &bytes);
    CHECK(back == of_session && bytes == ROOM);
    meet();
    CHECK(MPI_Buffer_flush() == MPI_SUCCESS && MPI_Comm_flush_buffer(mine) == MPI_SUCCESS);
    char *other = of_comm;
    of_comm = of_process;
    of_process = other;
    MPI_Comm_attach_buffer_c(mine, of_comm, ROOM + 1);
    MPI_Session_attach_buffer_c(session, of_session, ROOM);
    MPI_Session_flush_buffer(session);
    MPI_Buffer_attach_c(of_process, ROOM);
}

/* Codes of the previous round are removed in this one: they are saved in between. */
static void errors(void)
{
    static int class, code;
    char text[MPI_MAX_ERROR_STRING];
    int length, its;
    if (round_ > 0) {
        MPI_Error_string(code, text, &length);
        MPI_Error_class(code, &its);
        CHECK(its == class);
        say("text of the code: %s", text);
        CHECK(MPI_Remove_error_class(class) != MPI_SUCCESS); /* it has a code */
        CHECK(MPI_Remove_error_code(code) != MPI_SUCCESS); /* it has a text */
        CHECK(MPI_Remove_error_string(code) == MPI_SUCCESS);
        meet();
        CHECK(MPI_Remove_error_code(code) == MPI_SUCCESS);
        meet();
        CHECK(MPI_Remove_error_code(code) != MPI_SUCCESS);
        CHECK(MPI_Remove_error_class(class) == MPI_SUCCESS);
        meet();
    }
    MPI_Add_error_class(&class);
    MPI_Add_error_code(class, &code);
    snprintf(text, sizeof text, "a code of round %d", round_);
    MPI_Add_error_string(code, text);
    meet();
}

/* The library has its own knowledge of Fortran's types, which cannot be changed. */
static void fortran(void)
{
    MPI_Info info;
    char key[MPI_MAX_INFO_KEY + 1], value[64];
    int number, found, length, yes[4] = {0}, no[4] = {0}, class;
    CHECK(MPI_Abi_get_fortran_info(&info) == MPI_SUCCESS && info != MPI_INFO_NULL);
    MPI_Info_get_nkeys(info, &number);
    meet(); /* the object is saved */
    for (int i = 0; i < number; i++) {
        MPI_Info_get_nthkey(info, i, key);
        length = sizeof value;
        MPI_Info_get_string(info, key, &length, value, &found);
        say("%s %s", key, value);
    }
    MPI_Error_class(MPI_Abi_set_fortran_info(info), &class);
    CHECK(class == MPI_ERR_ABI);
    MPI_Info_free(&info);
    CHECK(MPI_Abi_get_fortran_booleans(sizeof *yes, yes, no, &found) == MPI_SUCCESS && found);
    say("booleans %d %d", yes[0], no[0]);
    MPI_Error_class(MPI_Abi_set_fortran_booleans(sizeof *yes, yes, no), &class);
    CHECK(class == MPI_ERR_ABI);
}

/* Datatypes that only MPICH has. */
static void types(void)
{
    static const struct {
        const char *name;
        MPI_Datatype type;
    } all[] = {
        {"MPI_LOGICAL16", MPI_LOGICAL16},
#ifdef MPIX_C_FLOAT16
        {"MPIX_C_FLOAT16", MPIX_C_FLOAT16},
        {"MPIX_BFLOAT16", MPIX_BFLOAT16},
#endif
    };
    int right = (rank + 1) % size, left = (rank + size - 1) % size, bytes, length;
    for (size_t t = 0; t < sizeof all / sizeof *all; t++) {
        unsigned char out[64], in[64] = {0};
        MPI_Datatype pair, copy;
        MPI_Status status;
        char name[MPI_MAX_OBJECT_NAME];
        MPI_Type_get_name(all[t].type, name, &length);
        MPI_Type_size(all[t].type, &bytes);
        say("%s: %s, %d bytes", all[t].name, name, bytes);
        MPI_Type_contiguous(2, all[t].type, &pair);
        MPI_Type_commit(&pair);
        memset(out, 16 * rank + round_ % 16, sizeof out);
        MPI_Send(out, 2, all[t].type, right, 30, MPI_COMM_WORLD);
        meet(); /* the message and the datatype are saved */
        MPI_Recv(in, 1, pair, left, 30, MPI_COMM_WORLD, &status);
        say_status("pair", &status, all[t].type);
        CHECK(in[2 * bytes - 1] == 16 * left + round_ % 16 && in[2 * bytes] == 0);
        int integers[1];
        MPI_Aint addresses[1];
        MPI_Type_get_contents(pair, 1, 0, 1, integers, addresses, &copy);
        CHECK(copy == all[t].type);
        MPI_Type_free(&pair);
    }
}

#ifdef MPIX_GPU_SUPPORT_CUDA
/* Procedures that only MPICH has. */
static void extensions(void)
{
    unsigned char bytes[] = {0, 1, 0xab, 0xff};
    char text[16];
    int length = sizeof text, found, left = (rank + size - 1) % size, in, is_there;
    MPI_Info info;
    MPI_Request request;
    MPI_Info_create(&info);
    CHECK(MPIX_Info_set_hex(info, "bytes", bytes, sizeof bytes) == MPI_SUCCESS);
    MPI_Irecv(&in, 1, MPI_INT, left, 40, MPI_COMM_WORLD, &request);
    CHECK(!MPIX_Request_is_complete(request) && MPIX_Request_is_complete(MPI_REQUEST_NULL));
    meet(); /* info object and request are saved */
    MPI_Info_get_string(info, "bytes", &length, text, &found);
    say("bytes %s %d %d", text, length, found);
    MPI_Info_free(&info);
    MPI_Send(&round_, 1, MPI_INT, (rank + 1) % size, 40, MPI_COMM_WORLD);
    while (!MPIX_Request_is_complete(request)) /* makes no progress */
        MPI_Iprobe(MPI_ANY_SOURCE, 41, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(in == round_);
    CHECK(MPIX_GPU_query_support(MPIX_GPU_SUPPORT_ZE, &is_there) == MPI_SUCCESS && !is_there);
    CHECK(!MPIX_Query_hip_support() && !MPIX_Query_ze_support());
}
#else
static void extensions(void)
{
}
#endif

/* MPICH has no events for tools. */
static void tools(void)
{
    int level, number = -1, index;
    MPI_T_event_registration registration;
    MPI_T_pvar_session pvars;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &level);
    CHECK(MPI_T_event_get_num(&number) == MPI_SUCCESS && number == 0);
    CHECK(MPI_T_source_get_num(&number) == MPI_SUCCESS && number == 0);
    CHECK(MPI_T_event_get_index("none", &index) == MPI_T_ERR_INVALID_NAME);
    CHECK(MPI_T_event_handle_alloc(0, NULL, MPI_INFO_NULL, &registration) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_category_get_num(&number) == MPI_SUCCESS && number > 0);
    CHECK(MPI_T_category_get_events(number, 1, &index) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_category_get_num_events(0, &number) == MPI_SUCCESS && number == 0);
    MPI_T_pvar_session_create(&pvars);
#ifdef MPICH /* With the standard ABI, MPICH crashes with this constant. */
    CHECK(MPI_T_pvar_start(pvars, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_stop(pvars, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
#endif
    MPI_T_pvar_session_free(&pvars);
    MPI_T_finalize();
}

/* The directly accessible part of a window, for windows of all kinds. */
static void parts(void)
{
    char *base, *own;
    MPI_Win win;
    MPI_Aint bytes;
    int unit;
    MPI_Win_allocate(100 + rank, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &win);
    memset(own, 'a' + rank, 100 + rank);
    meet();
    for (int of = 0; of < size; of++) {
        MPI_Win_shared_query(win, of, &bytes, &unit, &base);
        CHECK(bytes == 0 || (bytes == 100 + of && base[bytes - 1] == 'a' + of));
    }
    MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &base);
    CHECK(bytes == 0 || (bytes == 100 && base[0] == 'a'));
    MPI_Win_free(&win);
    MPI_Win_create(of_process, 10 + rank, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &base);
    CHECK(bytes == 0 || bytes == 10);
    MPI_Win_free(&win);
}

static void content(void)
{
    if (round_ == 0) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        MPI_Comm_dup(MPI_COMM_WORLD, &mine);
        MPI_Comm_set_errhandler(mine, MPI_ERRORS_RETURN);
        of_process = malloc(2 * (ROOM + 1));
        of_comm = of_process + ROOM + 1;
        MPI_Buffer_attach(of_process, ROOM);
        MPI_Comm_attach_buffer(mine, of_comm, ROOM + 1);
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
        MPI_Session_attach_buffer(session, of_session, ROOM);
        MPI_Group group;
        MPI_Comm parent;
        MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
        MPI_Comm_create_from_group(group, "all", MPI_INFO_NULL, MPI_ERRORS_RETURN, &parent);
        MPI_Comm_dup(parent, &from_session);
        MPI_Group_free(&group);
        MPI_Comm_free(&parent);
    }
    states();
    buffers();
    flushes();
    if (round_ % 4 == 3)
        exchange_buffers();
    errors();
    fortran();
    types();
    extensions();
    tools();
    parts();
}

int main(int argc, char **argv)
{
    void *back;
    int bytes;
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    MPI_Comm_detach_buffer(mine, &back, &bytes);
    MPI_Buffer_detach(&back, &bytes);
    MPI_Session_detach_buffer(session, &back, &bytes);
    MPI_Comm_free(&from_session);
    MPI_Session_finalize(&session);
    MPI_Comm_free(&mine);
    MPI_Finalize();
    free(of_process < of_comm ? of_process : of_comm);
    return 0;
}
#endif
