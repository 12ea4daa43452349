#!/usr/bin/env bash
# Makes sure that the distribution's parallel HDF5 and netCDF, PETSc, EZTrace and MPI's C++ bindings
# are installed, with the compilers for programs that use them; some tests need all of these. Exits
# with status 1 and the reason if the installation fails.
set -euo pipefail

# fail CAUSE REMEDY
fail() {
    printf 'libraries: error: %s\nlibraries: remedy: %s\n' "$1" "$2" >&2
    exit 1
}

packages=(openmpi-bin libhdf5-openmpi-dev hdf5-helpers libnetcdf-mpi-dev libpetsc-real-dev eztrace otf2-tools)

are_there() {
    [[ -x /usr/bin/mpirun.openmpi && -x /usr/bin/mpicxx.openmpi && -x /usr/bin/h5pcc.openmpi && -x /usr/bin/eztrace && -x /usr/bin/otf2-print ]] &&
        [[ -e /usr/lib/x86_64-linux-gnu/netcdf/mpi/libnetcdf.so ]] &&
        compgen -G '/usr/lib/petscdir/*/*-real/include/petscksp.h' >/dev/null
}

are_there && exit 0
command -v apt-get >/dev/null 2>&1 ||
    fail "this system has no apt-get." "run the tests without these libraries: they say that they are skipped."
[[ $(id -u) == 0 ]] ||
    fail "only root can install them." "run as root: apt-get install --no-install-recommends ${packages[*]}"

export DEBIAN_FRONTEND=noninteractive
echo "libraries: installing the distribution's HDF5, netCDF, PETSc and EZTrace"
apt-get update -qq </dev/null || echo "libraries: apt-get update failed; trying with the package lists there are" >&2
apt-get install -qq -y --no-install-recommends "${packages[@]}" </dev/null >&2 ||
    fail "apt-get could not install them (its message is above)." "check that apt-get can reach its archive or a mirror of it, then run make libraries again."
are_there || fail "the packages were installed but lack a compiler, a tool or PETSc's headers." "run the tests without these libraries: they say that they are skipped."
