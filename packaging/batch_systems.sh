#!/usr/bin/env bash
# Unpacks a batch system of the distribution into ./.env, for tests that start jobs with it; nothing
# is installed.
#
#   batch_systems.sh slurm | gridengine
#
# A second call is fast. Exits with status 1 and the reason if the batch system is not available.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
system=${1:-}

# fail CAUSE REMEDY
fail() {
    printf '%s: error: %s\n%s: remedy: %s\n' "$system" "$1" "$system" "$2" >&2
    exit 1
}

case $system in
slurm)
    needed=(slurmctld slurmd slurm-client libslurm-dev)
    unneeded=none
    files=(bin/srun include/slurm/spank.h)
    ;;
gridengine)
    needed=(gridengine-master gridengine-exec gridengine-client)
    # Grid Engine sends mail, and has a shell of its own.
    unneeded='exim|mailx|tcsh|lockfile|libidn'
    files=(bin/qsub)
    ;;
*) system=batch_systems && fail "this is no batch system: ${1:-}" "name slurm or gridengine." ;;
esac
place=$PWD/.env/$system

is_there() {
    local file
    for file in "${files[@]}"; do
        [[ -e $place/usr/$file || -L $place/usr/$file ]] || return 1
    done
}
is_there && exit 0
command -v apt-get >/dev/null 2>&1 && command -v dpkg >/dev/null 2>&1 ||
    fail "this system has no apt-get and dpkg." \
        "run the tests without this batch system: they say that they are skipped."
wanted() {
    apt-get install --simulate --no-install-recommends "${needed[@]}" </dev/null 2>/dev/null |
        sed -n 's/^Inst \([^ ]*\).*/\1/p' | grep -Ev "$unneeded"
}
if [[ -z $(wanted) && $(id -u) == 0 ]]; then
    apt-get update -qq </dev/null >&2 ||
        echo "$system: apt-get update failed; trying with the package lists there are" >&2
fi
mapfile -t packages < <(wanted)
((${#packages[@]})) ||
    fail "apt-get knows no packages to unpack." \
        "run apt-get update as root, then make $system again."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
echo "$system: unpacking ${packages[*]} into .env/$system"
download=(apt-get download -qq -o APT::Sandbox::User=root)
(cd "$scratch" && "${download[@]}" "${packages[@]}" </dev/null >&2) ||
    fail "apt-get could not download them (its message is above)." \
        "check that apt-get can reach its archive or a mirror, then run make $system again."
rm -rf "$place"
for package in "$scratch"/*.deb; do
    dpkg --extract "$package" "$scratch/tree"
done
mkdir -p "${place%/*}"
mv "$scratch/tree" "$place"
