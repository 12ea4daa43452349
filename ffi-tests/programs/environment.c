/*
 * Start, thread levels, versions, time, memory, info objects and Fortran
 * handles.
 */
#include "check.h"

#ifdef OPEN_MPI /* Common blocks of Fortran. */
extern MPI_Fint mpi_fortran_status_ignore_[], mpi_fortran_statuses_ignore_[];
#endif

static MPI_Info kept = MPI_INFO_NULL;
static MPI_Request kept_request;
static int kept_value;
static int level;

static void info(void)
{
    char key[MPI_MAX_INFO_KEY + 1], value[128];
    int count, flag, length;
    MPI_Info copy;
    snprintf(value, sizeof value, "value of round %d", round_);
    MPI_Info_set(kept, "changing", value);
    MPI_Info_dup(kept, &copy);
    meet();
    MPI_Info_delete(copy, "second");
    MPI_Info_get_nkeys(kept, &count);
    say("%d keys", count);
    for (int i = 0; i < count; i++) {
        MPI_Info_get_nthkey(kept, i, key);
        MPI_Info_get_valuelen(kept, key, &length, &flag);
        MPI_Info_get(kept, key, 100, value, &flag);
        say("%s = %s (%d)", key, value, length);
    }
    MPI_Info_get_nkeys(copy, &count);
    MPI_Info_get(copy, "second", 100, value, &flag);
    say("copy: %d keys, second %d", count, flag);
    length = 6;
    MPI_Info_get_string(copy, "changing", &length, value, &flag);
    say("string %d '%s' %d", flag, value, length);
    CHECK(MPI_Info_f2c(MPI_Info_c2f(kept)) == kept);
    MPI_Info_free(&copy);
    CHECK(copy == MPI_INFO_NULL);
#if MPI_VERSION > 4 || MPI_VERSION == 4 && MPI_SUBVERSION >= 1
    MPI_Get_hw_resource_info(&copy);
    CHECK(copy != MPI_INFO_NULL);
    MPI_Info_free(&copy);
#endif
}

static void fortran(void)
{
    MPI_Request request;
    MPI_Status status, back;
    MPI_Fint numbers[8];
    int value = 1, left = (rank + size - 1) % size;
    MPI_Irecv(&value, 1, MPI_INT, left, 3, MPI_COMM_WORLD, &request);
    meet();
    CHECK(MPI_Request_f2c(MPI_Request_c2f(request)) == request);
    CHECK(MPI_Request_f2c(MPI_Request_c2f(MPI_REQUEST_NULL)) == MPI_REQUEST_NULL);
    MPI_Send(&round_, 1, MPI_INT, (rank + 1) % size, 3, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    MPI_Status_c2f(&status, numbers);
#ifdef OPEN_MPI
    CHECK(MPI_F_STATUS_IGNORE == mpi_fortran_status_ignore_ && MPI_F_STATUSES_IGNORE == mpi_fortran_statuses_ignore_);
#endif
    MPI_Status_f2c(numbers, &back);
    CHECK(back.MPI_SOURCE == left && back.MPI_TAG == 3 && value == round_);
    CHECK(MPI_Type_f2c(MPI_Type_c2f(MPI_DOUBLE)) == MPI_DOUBLE);
    CHECK(MPI_Comm_c2f(MPI_COMM_WORLD) == 0 && MPI_Comm_c2f(MPI_COMM_SELF) == 1);
    CHECK(MPI_Info_f2c(MPI_Info_c2f(MPI_INFO_NULL)) == MPI_INFO_NULL);
    MPI_Status_set_elements(&status, MPI_INT, 5);
    MPI_Status_set_cancelled(&status, 1);
    say_status("made up", &status, MPI_INT);
}

static void environment(void)
{
    int flag, version, subversion, length, provided;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Initialized(&flag);
    CHECK(flag);
    MPI_Finalized(&flag);
    CHECK(!flag);
    MPI_Query_thread(&provided);
    CHECK(provided == level);
    MPI_Is_thread_main(&flag);
    CHECK(flag);
    MPI_Get_version(&version, &subversion);
    say("version %d.%d", version, subversion);
    MPI_Get_library_version(text, &length);
    say("%.60s", text);
    MPI_Get_processor_name(text, &length);
    CHECK(length > 0 && (int)strlen(text) == length);
    // In all rounds: earlier times must not change.
    static double last;
    double begin = MPI_Wtime();
    CHECK(begin >= last && (last == 0 || begin - last < 60));
    last = MPI_Wtime();
    CHECK(last >= begin && MPI_Wtick() > 0);
    say("pcontrol %d %d", MPI_Pcontrol(0), MPI_Pcontrol(1));
    int *memory;
    MPI_Alloc_mem(1000 * sizeof *memory, MPI_INFO_NULL, &memory);
    for (int i = 0; i < 1000; i++)
        memory[i] = i + round_;
    meet();
    int bad = 0;
    for (int i = 0; i < 1000; i++)
        bad += memory[i] != i + round_;
    CHECK(bad == 0);
    MPI_Free_mem(memory);
}

static void content(void)
{
    if (round_ == 0) {
        MPI_Info_set(kept, "first", "1");
        MPI_Info_set(kept, "second", "two");
        MPI_Recv_init(&kept_value, 1, MPI_INT, rank, 8, MPI_COMM_WORLD, &kept_request);
    }
    info();
    fortran();
    environment();
    CHECK(MPI_Request_f2c(MPI_Request_c2f(kept_request)) == kept_request);
}

int main(int argc, char **argv)
{
    int flag;
    MPI_Initialized(&flag);
    if (flag)
        return 1;
    /* Info objects may be used before MPI_Init and after MPI_Finalize. */
    char value[128];
    MPI_Info_create(&kept);
    MPI_Info_set(kept, "before", "init");
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    run_rounds(argc, argv, content);
    MPI_Request_free(&kept_request);
    MPI_Finalize();
    MPI_Info_get(kept, "changing", sizeof value - 1, value, &flag);
    if (rank == 0)
        printf("after the end: %s\n", flag ? value : "nothing");
    MPI_Info_get(kept, "before", sizeof value - 1, value, &flag);
    if (!flag || strcmp(value, "init"))
        return 1;
    MPI_Info_free(&kept);
    MPI_Finalized(&flag);
    return !flag;
}
