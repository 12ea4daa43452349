/* Elements of 2 GiB and more in MPI files, without and with a gap in memory. */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { MARKS = 5, GAP = 1 << 16 };

static char *memory;
static size_t length, gap_at;

/* Offset of a checked byte, in the data of an element and in memory. */
static size_t place(int mark)
{
    return mark * ((length - 1) / (MARKS - 1));
}

static char *in_memory(int mark)
{
    return &memory[place(mark) + (place(mark) >= gap_at ? GAP : 0)];
}

static void try_it(const char *name, MPI_Datatype type)
{
    MPI_File file;
    MPI_Status status;
    MPI_Count count;
    struct stat about;
    char found;
    MPI_Type_commit(&type);
    MUST(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) == MPI_SUCCESS);
    for (int i = 0; i < MARKS; i++)
        *in_memory(i) = 'a' + i;
    MUST(MPI_File_write_at(file, 0, memory, 1, type, &status) == MPI_SUCCESS);
    MPI_Get_elements_x(&status, MPI_BYTE, &count);
    CHECK((size_t)count == length);
    CHECK(stat(name, &about) == 0 && (size_t)about.st_size == length);
    int plain = open(name, O_RDONLY);
    for (int i = 0; i < MARKS; i++) {
        MUST(pread(plain, &found, 1, place(i)) == 1 && found == 'a' + i);
        *in_memory(i) = 0;
    }
    close(plain);
    MUST(MPI_File_set_size(file, length - 9) == MPI_SUCCESS);
    memory[gap_at] = 'x';
    MUST(MPI_File_read_at(file, 0, memory, 1, type, &status) == MPI_SUCCESS);
    MPI_Get_elements_x(&status, MPI_BYTE, &count);
    CHECK((size_t)count == length - 9);
    for (int i = 0; i < MARKS; i++)
        MUST(*in_memory(i) == (place(i) < length - 9 ? 'a' + i : 0));
    CHECK(memory[gap_at] == 'x');
    MUST(MPI_File_close(&file) == MPI_SUCCESS);
    MPI_File_delete(name, MPI_INFO_NULL);
    MPI_Type_free(&type);
}

static void content(void)
{
    MPI_Datatype type;
    int many = (1 << 28) + 3, half = 140000000, anonymous = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    size_t most = (size_t)many * 8 + ((size_t)1 << 28);
    meet();
    for (int has_gap = 0; rank == 0 && has_gap < 2; has_gap++) {
        memory = mmap(NULL, most, PROT_READ | PROT_WRITE, anonymous, -1, 0);
        MUST(memory != MAP_FAILED);
        length = has_gap ? (size_t)half * 16 : (size_t)many * 8;
        gap_at = has_gap ? (size_t)half * 8 : most - 1;
        if (has_gap)
            MPI_Type_create_hvector(2, half, (MPI_Aint)half * 8 + GAP, MPI_DOUBLE, &type);
        else
            MPI_Type_contiguous(many, MPI_DOUBLE, &type);
        try_it(has_gap ? "gap.dat" : "dense.dat", type);
        munmap(memory, most);
    }
    meet();
}

MAIN(content)
