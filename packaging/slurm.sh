#!/usr/bin/env bash
# Unpacks the distribution's Slurm into ./.env/slurm, for tests that start jobs with srun; nothing
# is installed. A second call is fast. Exits with status 1 and the reason if Slurm is not available.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
place=$PWD/.env/slurm

# fail CAUSE REMEDY
fail() {
    printf 'slurm: error: %s\nslurm: remedy: %s\n' "$1" "$2" >&2
    exit 1
}

[[ -x $place/usr/bin/srun && -f $place/usr/include/slurm/spank.h ]] && exit 0
command -v apt-get >/dev/null 2>&1 && command -v dpkg >/dev/null 2>&1 ||
    fail "this system has no apt-get and dpkg." "run the tests without Slurm: they say that they are skipped."
wanted() {
    apt-get install --simulate --no-install-recommends slurmctld slurmd slurm-client libslurm-dev </dev/null 2>/dev/null |
        sed -n 's/^Inst \([^ ]*\).*/\1/p'
}
if [[ -z $(wanted) && $(id -u) == 0 ]]; then
    apt-get update -qq </dev/null >&2 || echo "slurm: apt-get update failed; trying with the package lists there are" >&2
fi
mapfile -t packages < <(wanted)
((${#packages[@]})) || fail "apt-get knows no Slurm to unpack." "run apt-get update as root, then make slurm again."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
echo "slurm: unpacking ${packages[*]} into .env/slurm"
(cd "$scratch" && apt-get download -qq -o APT::Sandbox::User=root "${packages[@]}" </dev/null >&2) ||
    fail "apt-get could not download them (its message is above)." "check that apt-get can reach its archive or a mirror of it, then run make slurm again."
rm -rf "$place"
for package in "$scratch"/*.deb; do
    dpkg --extract "$package" "$scratch/tree"
done
mv "$scratch/tree" "$place"
