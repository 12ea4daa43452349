#!/usr/bin/env bash
# Installs mpi4py and numpy, which some tests import, into ./.env/python. Cheap
# when done.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
place=$PWD/.env/python
packages=(mpi4py==4.1.2 numpy==2.4.6)
stamp=$place/installed

say() { printf 'python: %s\n' "$*" >&2; }

[[ -f $stamp && $(<"$stamp") == "$place ${packages[*]}" ]] && exit 0
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
echo "$place ${packages[*]}" >"$stamp"
