#!/usr/bin/env bash
# Checks on a machine with an NVIDIA GPU that device memory survives the failure of a rank:
# packaging/gpu-check.sh [LIBCUDA]. Needs the results of `make build examples`, and of NVIDIA's
# software libcuda only, no compiler. LIBCUDA replaces the system's library, for example by the
# library of the tests.
#
# Exit status: 0 equal bytes, 1 different bytes, 2 nothing could be tested, 3 refused.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
program=build/programs/accelerator
release=${CARGO_TARGET_DIR:-target}/release
rounds=60 workers=2

say() { printf 'gpu-check: %s\n' "$*" >&2; }
nothing() {
    say "$1; nothing was tried"
    say "remedy: $2"
    exit 2
}

[[ -x $program && -x $release/understudy ]] ||
    nothing "the program or understudy is not built" "make build examples"
[[ ! -f .env/env.sh ]] || . .env/env.sh
library=${1:-libcuda.so.1}
if [[ $# = 0 ]]; then
    [[ -e /dev/nvidia0 ]] || nothing "this machine has no GPU of NVIDIA's (there is no /dev/nvidia0)" "run it where nvidia-smi lists one"
    ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1' || [[ -n ${LD_LIBRARY_PATH:-} ]] ||
        nothing "there is no libcuda.so.1" "install NVIDIA's driver, version 570 or later"
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader >&2 || true
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The program opens its device before MPI_Init (early), or after it (late).
failed=0
for when in early late; do
    if ! UNDERSTUDY_DISABLE=1 timeout 120 mpiexec --oversubscribe -n "$workers" "$program" "$library" "$rounds" "$when" >"$work/undisturbed" 2>"$work/messages"; then
        tail -n 20 "$work/messages" >&2
        nothing "the program fails without understudy (above)" "see whether other programs can use the GPU"
    fi
    status=0
    UNDERSTUDY_FAULT='kill rank=1 at=commit.end epoch=25' UNDERSTUDY_INTERVAL=3calls \
        timeout 300 "$release/understudy" run --workers "$workers" --spares 1 -- "$program" "$library" "$rounds" "$when" >"$work/killed" 2>"$work/messages" || status=$?
    grep '^understudy' "$work/messages" >&2 || true
    if grep -q 'memory cannot be saved' "$work/messages"; then
        say "$when: refused; the line above says why"
        [[ $failed = 1 ]] || failed=3
    elif [[ $status = 0 ]] && cmp -s "$work/undisturbed" "$work/killed" && grep -qF '[recovered]' "$work/messages"; then
        say "$when: a rank was killed, and the output is the same"
    else
        say "$when: status $status; the output is $(cmp -s "$work/undisturbed" "$work/killed" && echo "the same" || echo "another one")"
        tail -n 20 "$work/messages" >&2
        failed=1
    fi
done
exit "$failed"
