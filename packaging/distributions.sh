#!/usr/bin/env bash
# Makes root file systems of other suites of Debian in ./.env/distributions, in which some tests run
# programs with each suite's own C library and MPI:
#
#     distributions.sh SUITE…
#
# Needs root. The suite sid changes daily, so its file system is made again after a day; those of
# other suites are kept. Exits with status 1 and the reason if a file system cannot be made.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
place=$PWD/.env/distributions
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
packages=openmpi-bin,libopenmpi-dev,mpich,libmpich-dev,gcc,libc6-dev,libgomp1,python3-mpi4py,python3-numpy,lammps

# fail CAUSE REMEDY
fail() {
    printf 'distributions: error: %s\ndistributions: remedy: %s\n' "$1" "$2" >&2
    exit 1
}

# Prints the archive from which this system is installed (sources.list(5), both formats).
archive() {
    local files=(/etc/apt/sources.list /etc/apt/sources.list.d/*)
    { grep -hs -m1 '^URIs:' "${files[@]}" | awk '{print $2}'
      grep -hs '^deb ' "${files[@]}" | sed 's/\[[^]]*\] *//' | awk '{print $2}'; } | head -n 1
}

is_made() {
    local stamp=$place/$1/made
    [[ -f $stamp ]] && { [[ $1 != sid ]] || [[ -n $(find "$stamp" -mmin -1440) ]]; }
}

make_root() {
    local suite=$1 scratch
    is_made "$suite" && return
    [[ -n ${uri:=$(archive)} ]] || fail "apt's sources name no archive." "add one to /etc/apt/sources.list."
    echo "distributions: making .env/distributions/$suite (half a minute)"
    scratch=$place/.$suite.new
    rm -rf "$scratch"
    mkdir -p "$scratch"
    mmdebstrap --quiet --variant=apt --mode=root --include="$packages" \
        --aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Check-Valid-Until "false"' \
        "$suite" "$scratch/root" "deb [signed-by=$keyring] $uri $suite main" >&2 ||
        fail "mmdebstrap could not make $suite (its message is above)." \
            "check that apt-get can reach its archive, and that there are 2 GB of room; then try again."
    touch "$scratch/made"
    rm -rf "${place:?}/$suite"
    mv "$scratch" "$place/$suite"
}

(($#)) || fail "no suite is named." "make distributions SUITES='trixie sid'"
[[ $(uname -m) == x86_64 && -f $keyring ]] || fail "this is no Debian on x86-64." "run the tests without: they say that they are skipped."
[[ $(id -u) == 0 ]] || fail "only root can make root file systems." "run the tests without: they say that they are skipped."
if ! command -v mmdebstrap >/dev/null 2>&1; then
    apt-get install -y -qq mmdebstrap </dev/null >&2 || { apt-get update -qq </dev/null >&2 && apt-get install -y -qq mmdebstrap </dev/null >&2; } ||
        fail "mmdebstrap cannot be installed." "apt-get install mmdebstrap"
fi
for suite in "$@"; do
    make_root "$suite"
done
