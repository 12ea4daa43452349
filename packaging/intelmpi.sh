#!/usr/bin/env bash
# Installs Intel MPI, for which some tests run jobs, from the vendor's Python packages into
# ./.env/intelmpi. Intel's licence applies to the packages (.env/intelmpi/share/doc); nothing of
# them is part of understudy. A second call is fast.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
place=$PWD/.env/intelmpi
packages=(impi-rt==2021.18.1 impi-devel==2021.18.1)
stamp=$place/installed
# pip accepts no other files than these.
hashes=(
    sha256:51ca89c1e64e60d86a7d40a7d6124312ba63aafc03fb6aacc140b3c66371d814
    sha256:a412c58e443738e2d4d9dba17dbcd64a2d5f2996e50622b1cb6b1fd295e4c2d5
)

say() { printf 'intelmpi: %s\n' "$*" >&2; }

[[ -f $stamp && $(<"$stamp") == "${packages[*]}" ]] && exit
if ! command -v python3 >/dev/null 2>&1 || ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
    say "error: there is no python3 that can make virtual environments"
    say "remedy: install it (Debian: apt-get install python3 python3-venv)"
    exit 1
fi
rm -rf "$place"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv" >&2
for index in "${!packages[@]}"; do
    printf '%s --hash=%s\n' "${packages[index]}" "${hashes[index]}"
done >"$scratch/requirements"
say "installing ${packages[*]} into .env/intelmpi (130 MB, with Intel's licence)"
if ! "$scratch/venv/bin/python3" -m pip install --quiet --disable-pip-version-check --no-deps \
    --only-binary :all: --require-hashes --prefix "$place" --requirement "$scratch/requirements" >&2; then
    rm -rf "$place"
    say "error: pip could not install them (its message is above)"
    say "remedy: check that pip can reach its package index or a mirror of it (pip config list), then run make intelmpi again"
    exit 1
fi
echo "${packages[*]}" >"$stamp"
