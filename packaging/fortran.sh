#!/usr/bin/env bash
# Makes sure that a Fortran compiler and the distribution's Open MPI and MPICH are installed, whose
# Fortran bindings some tests use. The modules of Open MPI are unpacked into ./.env/fortran. A
# second call is fast. Exits with status 1 and the reason if the installation fails.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
place=$PWD/.env/fortran

# fail CAUSE REMEDY
fail() {
    printf 'fortran: error: %s\nfortran: remedy: %s\n' "$1" "$2" >&2
    exit 1
}

is_there() {
    { command -v gfortran || command -v gfortran-12; } >/dev/null 2>&1 && compgen -G '/usr/lib/*/libmpi_mpifh.so.40' >/dev/null && [[ -x /usr/bin/mpirun ]]
}

has_mpich() {
    command -v mpifort.mpich >/dev/null && command -v mpiexec.hydra >/dev/null
}

is_there && has_mpich && [[ -e $place/mpif.h ]] && exit 0
command -v apt-get >/dev/null 2>&1 && command -v dpkg >/dev/null 2>&1 ||
    fail "this system has no apt-get and dpkg." "run the tests without Fortran: they say that they are skipped."
export DEBIAN_FRONTEND=noninteractive
if ! is_there; then
    [[ $(id -u) == 0 ]] ||
        fail "only root can install gfortran and Open MPI." "run as root: apt-get install --no-install-recommends gfortran openmpi-bin"
    echo "fortran: installing gfortran and the distribution's Open MPI"
    apt-get update -qq </dev/null || echo "fortran: apt-get update failed; trying with the package lists there are" >&2
    apt-get install -qq -y --no-install-recommends gfortran openmpi-bin </dev/null >&2 ||
        fail "apt-get could not install them (its message is above)." "check that apt-get can reach its archive or a mirror of it, then run make fortran again."
fi
if ! has_mpich && [[ $(id -u) == 0 ]]; then
    echo "fortran: installing the distribution's MPICH"
    apt-get install -qq -y --no-install-recommends mpich libmpich-dev </dev/null >&2 ||
        echo "fortran: MPICH could not be installed; the tests with its programs are skipped" >&2
fi
[[ -e $place/mpif.h ]] && exit 0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
echo "fortran: unpacking the modules of Open MPI into .env/fortran"
(cd "$scratch" && apt-get download -qq -o APT::Sandbox::User=root libopenmpi-dev </dev/null >&2) ||
    fail "apt-get could not download libopenmpi-dev (its message is above)." "check that apt-get can reach its archive or a mirror of it, then run make fortran again."
dpkg --extract "$scratch"/*.deb "$scratch/tree"
modules=$(dirname "$(find "$scratch/tree" -name mpif.h | head -n 1)")
[[ -e $modules/mpi_f08.mod ]] || fail "libopenmpi-dev has no modules for gfortran." "run the tests without Fortran: they say that they are skipped."
rm -rf "$place"
mv "$modules" "$place"
