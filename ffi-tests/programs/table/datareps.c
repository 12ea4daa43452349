/*
 * Prints the library's results of registering data representations (MPI 4.1, 14.5.3)
 * and of setting views that name them.
 */
#include "../check.h"

static int class_of(int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

static int extent(MPI_Datatype type, MPI_Aint *bytes, void *extra)
{
    (void)type;
    (void)extra;
    *bytes = 4;
    return MPI_SUCCESS;
}

static int convert(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position, void *extra)
{
    (void)user, (void)type, (void)count, (void)file, (void)position, (void)extra;
    return MPI_SUCCESS;
}

static void register_it(const char *name, MPI_Datarep_conversion_function *function)
{
    say("%s: %d", name, class_of(MPI_Register_datarep(name, function, function, extent, NULL)));
    meet();
}

static void content(void)
{
    char name[32];
    MPI_File file;
    snprintf(name, sizeof name, "converted %d", round_);
    register_it(name, convert);
    snprintf(name, sizeof name, "plain %d", round_);
    register_it(name, MPI_CONVERSION_FN_NULL);
    /* These names are registered already, "plain 0" possibly before a failure. */
    register_it("plain 0", MPI_CONVERSION_FN_NULL);
    register_it("plain at the start", MPI_CONVERSION_FN_NULL);
    MUST(MPI_File_open(MPI_COMM_SELF, "/dev/null", MPI_MODE_RDWR, MPI_INFO_NULL, &file) == MPI_SUCCESS);
    say("view: %d", class_of(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "plain 0", MPI_INFO_NULL)));
    MPI_File_close(&file);
    meet();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    MPI_Register_datarep("plain at the start", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, extent, NULL);
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
