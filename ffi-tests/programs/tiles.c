/*
 * Tile registers (AMX), which a process may use after requesting permission.
 */
#include "check.h"
#include <immintrin.h>
#include <sys/syscall.h>

#define ARCH_REQ_XCOMP_PERM 0x1023
#define TILE_DATA 18

__attribute__((target("amx-tile"))) static void content(void)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t bytes_per_row[16];
        uint8_t rows[16];
    } shape = {.palette = 1, .bytes_per_row = {64}, .rows = {16}};
    static uint8_t in[1024], out[1024];

    _tile_loadconfig(&shape);
    memset(in, round_ + rank, sizeof in);
    memset(out, 0, sizeof out);
    _tile_loadd(0, in, 64);
    _tile_stored(0, out, 64);
    _tile_release();
    CHECK(!memcmp(in, out, sizeof in));
    meet();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA))
        say("FAILED to get the tile registers");
    run_rounds(argc, argv, content);
    MPI_Finalize();
    return 0;
}
