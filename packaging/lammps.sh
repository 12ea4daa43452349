#!/usr/bin/env bash
# Makes sure that the distribution's LAMMPS (`lmp`) is installed: some tests
# run it unmodified. Exits with status 1 and the reason if the installation fails.
set -euo pipefail

fail() {
    printf 'lammps: %s\n' "$@" >&2
    exit 1
}

if command -v lmp >/dev/null 2>&1; then
    echo "lammps: found $(command -v lmp)"
    exit 0
fi
command -v apt-get >/dev/null 2>&1 ||
    fail "not installed, and this system has no apt-get." "Install LAMMPS, built for Open MPI, as 'lmp' on the PATH."
[[ $(id -u) == 0 ]] ||
    fail "not installed, and only root can install it." "Run as root: apt-get install --no-install-recommends lammps"

export DEBIAN_FRONTEND=noninteractive
echo "lammps: installing the distribution's package"
apt-get update -qq </dev/null || echo "lammps: apt-get update failed; trying with the package lists there are" >&2
apt-get install -qq -y --no-install-recommends lammps </dev/null >&2 ||
    fail "apt-get could not install it (its message is above)."
command -v lmp >/dev/null 2>&1 || fail "the package was installed but brought no 'lmp'."
echo "lammps: installed $(command -v lmp)"
