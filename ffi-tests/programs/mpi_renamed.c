/* MPI files that are renamed or removed while they are open. */
#include "check.h"

static const char *const names[] = {"moved.a", "moved.b"};
static MPI_File moved;

static int old_size(int round) { return 64 * (1 + round % 3); }

static void write_all(MPI_File file, int salt)
{
    int numbers[16];
    for (int i = 0; i < 16; i++)
        numbers[i] = 1000 * round_ + 100 * rank + i + salt;
    MUST(MPI_File_write_at(file, rank * sizeof numbers, numbers, 16, MPI_INT, MPI_STATUS_IGNORE) == MPI_SUCCESS);
}

static void say_content(const char *name)
{
    int numbers[64] = {0}, sum = 0;
    FILE *file = fopen(name, "r");
    if (!file) {
        say("no %s", name);
        return;
    }
    int count = fread(numbers, sizeof numbers[0], 64, file);
    fclose(file);
    for (int i = 0; i < count; i++)
        sum = 31 * sum + numbers[i];
    say("%s: %d, %08x", name, count, (unsigned)sum);
}

/* Renamed within a round; written before and after. */
static void rename_it(void)
{
    write_all(moved, 1);
    meet();
    if (rank == 0)
        MUST(rename(names[round_ % 2], names[(round_ + 1) % 2]) == 0);
    meet();
    write_all(moved, 5);
    meet();
    if (round_ % 3 == 2) {
        MUST(MPI_File_set_size(moved, 128) == MPI_SUCCESS);
        meet();
        write_all(moved, 7);
    }
    meet();
    say_content(names[0]);
    say_content(names[1]);
}

/*
 * Removed while it is open, then written. The next round finds another file of this
 * name.
 */
static void remove_it(void)
{
    MPI_File file;
    int numbers[16];
    meet();
    MUST(MPI_File_open(MPI_COMM_WORLD, "removed.dat", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) == MPI_SUCCESS);
    MUST(MPI_File_set_size(file, old_size(round_)) == MPI_SUCCESS);
    write_all(file, 3);
    meet();
    say_content("removed.dat");
    meet();
    if (rank == 1 && round_ % 2)
        MUST(unlink("removed.dat") == 0);
    meet();
    write_all(file, 9);
    for (int i = 0; i < 6; i++)
        meet();
    MUST(MPI_File_read_at(file, (rank + 1) % size * sizeof numbers, numbers, 16, MPI_INT, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(numbers[3] == 1000 * round_ + 100 * ((rank + 1) % size) + 12);
    MUST(MPI_File_close(&file) == MPI_SUCCESS);
    meet();
}

static void content(void)
{
    if (round_ == 0)
        MUST(MPI_File_open(MPI_COMM_WORLD, names[0], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &moved) == MPI_SUCCESS);
    rename_it();
    remove_it();
    if (round_ == rounds - 1)
        MUST(MPI_File_close(&moved) == MPI_SUCCESS);
}

MAIN(content)
