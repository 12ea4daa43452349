/*
 * The tool interface: variables are enumerated, read, written and counted, also before
 * MPI_Init.
 */
#include "check.h"

static MPI_T_cvar_handle written, early;
static MPI_T_pvar_session session;
static MPI_T_pvar_handle counter;
static int early_count, written_count, counters, enumerations;

/* A control variable of one integer that may be written at any time. */
static int find_writable(void)
{
    const char *names[] = {"coll_basic_crossover", "MPIR_CVAR_ALLTOALL_SHORT_MSG_SIZE"};
    for (int i = 0; i < 2; i++) {
        int index;
        if (MPI_T_cvar_get_index(names[i], &index) == MPI_SUCCESS)
            return index;
    }
    return -1;
}

/*
 * All variables and categories. Their number is printed, and some of them are looked up
 * by name.
 */
static int enumerate(void)
{
    int count, found = 0, missing = 0;
    MPI_T_cvar_get_num(&count);
    for (int i = 0; i < count; i++) {
        char name[512], text[64];
        int length = sizeof name, verbosity, bind, scope, index = -1;
        MPI_Datatype type;
        MPI_T_enum values;
        if (MPI_T_cvar_get_info(i, name, &length, &verbosity, &type, &values, NULL, NULL, &bind, &scope) != MPI_SUCCESS)
            continue;
        found++;
        missing += MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS || index != i;
        if (type != MPI_INT && type != MPI_CHAR && type != MPI_UNSIGNED && type != MPI_UNSIGNED_LONG &&
            type != MPI_UNSIGNED_LONG_LONG && type != MPI_DOUBLE && type != MPI_C_BOOL && type != MPI_INT32_T &&
            type != MPI_UINT32_T && type != MPI_INT64_T && type != MPI_UINT64_T && type != MPI_COUNT && type != MPI_LONG)
            MUST(type == MPI_DATATYPE_NULL);
        if (values != MPI_T_ENUM_NULL) {
            int items, value;
            length = sizeof text;
            MUST(MPI_T_enum_get_info(values, &items, text, &length) == MPI_SUCCESS && items > 0);
            length = sizeof text;
            MUST(MPI_T_enum_get_item(values, 0, &value, text, &length) == MPI_SUCCESS);
            enumerations++;
        }
    }
    MUST(missing == 0);
    int categories, fine = 0;
    MPI_T_category_get_num(&categories);
    MUST(categories > 0);
    for (int i = 0; i < categories; i++) {
        char name[512];
        int length = sizeof name, cvars, pvars, parts;
        /* Open MPI does not return information about all. */
        fine += MPI_T_category_get_info(i, name, &length, NULL, NULL, &cvars, &pvars, &parts) == MPI_SUCCESS;
    }
    MUST(fine > 0);
#if MPI_VERSION >= 4
    int events = -1, sources = -1;
    MUST(MPI_T_event_get_num(&events) == MPI_SUCCESS && events >= 0);
    MUST(MPI_T_source_get_num(&sources) == MPI_SUCCESS && sources >= 0);
    MUST(MPI_T_category_get_num_events(0, &events) == MPI_SUCCESS && events >= 0);
#endif
    return found;
}

static int read_int(MPI_T_cvar_handle handle)
{
    int value = -1;
    MUST(MPI_T_cvar_read(handle, &value) == MPI_SUCCESS);
    return value;
}

/* The length of the queue of unexpected messages, or the first variable. */
static void begin_counting(void)
{
    int count, chosen = -1, elements;
    MPI_T_pvar_get_num(&count);
    counters = count;
    MPI_T_pvar_session_create(&session);
    for (int i = 0; i < count && chosen < 0; i++) {
        char name[256];
        int length = sizeof name, verbosity, class, bind, readonly, continuous, atomic;
        MPI_Datatype type;
        MPI_T_enum values;
        if (MPI_T_pvar_get_info(i, name, &length, &verbosity, &class, &type, &values, NULL, NULL, &bind, &readonly,
                                &continuous, &atomic) == MPI_SUCCESS &&
            !strcmp(name, "pml_ob1_posted_recvq_length"))
            chosen = i;
    }
    counter = MPI_T_PVAR_HANDLE_NULL;
    if (chosen >= 0) {
        MPI_Comm comm = MPI_COMM_WORLD;
        CHECK(MPI_T_pvar_handle_alloc(session, chosen, &comm, &counter, &elements) == MPI_SUCCESS);
        say("%d values", elements);
    }
}

static void content(void)
{
    static int number;
    int value;
    if (round_ == 0) {
        begin_counting();
        int index = find_writable();
        CHECK(index >= 0);
        if (index >= 0) {
            CHECK(MPI_T_cvar_handle_alloc(index, NULL, &written, &written_count) == MPI_SUCCESS);
            CHECK(written_count == 1);
        }
        say("%d control variables", enumerate() > 100);
        say("early %d", early_count);
    }
    meet();
    if (written != MPI_T_CVAR_HANDLE_NULL && round_ % 4 == 0) {
        number = 1000 + round_;
        CHECK(MPI_T_cvar_write(written, &number) == MPI_SUCCESS);
    }
    meet();
    if (written != MPI_T_CVAR_HANDLE_NULL)
        say("written %d", read_int(written) == number);
    if (early != MPI_T_CVAR_HANDLE_NULL)
        say("early %d", read_int(early) == number);
    meet();
    if (counter != MPI_T_PVAR_HANDLE_NULL) {
        unsigned lengths[16];
        CHECK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
        CHECK(MPI_T_pvar_read(session, counter, lengths) == MPI_SUCCESS);
        CHECK(MPI_T_pvar_stop(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
    }
    CHECK(MPI_T_cvar_handle_alloc(-7, NULL, &(MPI_T_cvar_handle){0}, &value) != MPI_SUCCESS);
    /* A tool that initialises and finalises the interface. */
    CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &value) == MPI_SUCCESS);
    meet();
    MPI_T_finalize();
}

int main(int argc, char **argv)
{
    int provided, index;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    index = find_writable();
    if (index >= 0)
        MPI_T_cvar_handle_alloc(index, NULL, &early, &early_count);
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    if (counter != MPI_T_PVAR_HANDLE_NULL)
        MPI_T_pvar_handle_free(session, &counter);
    MPI_T_pvar_session_free(&session);
    if (written != MPI_T_CVAR_HANDLE_NULL)
        MPI_T_cvar_handle_free(&written);
    MPI_Finalize();
    MPI_T_finalize();
    return 0;
}
