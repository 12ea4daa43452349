#!/usr/bin/env bash
# Installs mpi4py and numpy, which some tests import, into ./.env/python, and
# mpi4py's own tests beside them. Cheap when done.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
place=$PWD/.env/python
packages=(mpi4py==4.1.2 numpy==2.4.6)
stamp=$place/installed
# Of the same version: its source archive has them.
tests=$place/mpi4py-tests

say() { printf 'python: %s\n' "$*" >&2; }

[[ -f $stamp && $(<"$stamp") == "$place ${packages[*]} tests" ]] && exit 0
if ! command -v python3 >/dev/null 2>&1 || ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
    say "error: there is no python3 that can make virtual environments"
    say "remedy: install it (Debian: apt-get install python3 python3-venv)"
    exit 1
fi
# The distribution's interpreter, if there is one, as users have it.
python=$(PATH=/usr/bin:$PATH command -v python3)
rm -rf "$place"
say "installing ${packages[*]} into .env/python"
"$python" -m venv "$place" >&2
if ! "$place/bin/python3" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: "${packages[@]}" >&2; then
    say "error: pip could not install them (its message is above)"
    say "remedy: check that pip can reach its package index or a mirror of it (pip config list), then run make python again"
    exit 1
fi
archive=$(mktemp -d)
trap 'rm -rf "$archive"' EXIT
if "$place/bin/python3" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary mpi4py --dest "$archive" "${packages[0]}" >&2; then
    mkdir -p "$tests"
    tar -xzf "$archive"/mpi4py-*.tar.gz -C "$tests" --strip-components 2 --wildcards '*/test/*'
else
    say "warning: mpi4py's own tests cannot be had (pip's message is above); make conformance needs them"
fi
echo "$place ${packages[*]} tests" >"$stamp"
