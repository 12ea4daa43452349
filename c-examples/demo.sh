#!/usr/bin/env bash
# Runs heat2d undisturbed, then under understudy while one of its workers is killed, and compares
# the output of both runs. Called by `make demo`, which puts MPI on the PATH.
#
# DEMO_NX, DEMO_NY, DEMO_ITERATIONS set the size, DEMO_VICTIM the worker.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly workers=4 spares=1 limit_s=120
readonly nx=${DEMO_NX:-500} ny=${DEMO_NY:-500} iterations=${DEMO_ITERATIONS:-20000} victim=${DEMO_VICTIM:-2}
readonly lines=40 # progress lines of one run
readonly out=build/demo
readonly heat2d=build/examples/heat2d
readonly layer=$PWD/target/release/libunderstudy.so
readonly mpirun_flags=(--oversubscribe --mca btl 'self,sm' --mca mpi_yield_when_idle 1)

mpirun_pid= # the running mpirun, if any

say() { printf 'demo: %s\n' "$*"; }

fail() {
    printf 'demo: FAILED: %s\n' "$*" >&2
    exit 1
}

# timeout passes the signal on to its job.
trap '[[ -z $mpirun_pid ]] || kill "$mpirun_pid" 2>/dev/null || true' EXIT

# Direct children of process $1, oldest first: mpirun forks its ranks in order.
children() {
    local stat line
    local -a field
    for stat in /proc/[0-9]*/stat; do
        { read -r line <"$stat"; } 2>/dev/null || continue # it has just exited
        # After the last ')' come the state, the parent and, 18 fields further, the start time; the
        # name before may contain anything.
        read -r -a field <<<"${line##*) }"
        [[ ${field[1]} != "$1" ]] || echo "${field[19]} ${line%% *}"
    done | sort -n -k 1,1 -k 2,2 | cut -d ' ' -f 2
}

# Prints the PID of rank $2 of the mpirun with PID $1; fails if there is none. Mpirun's children are
# guardians, which were started with their rank in the environment; each has the program as a child.
rank_pid() {
    local mpirun=$1 rank=$2 guardian pid
    for guardian in $(children "$mpirun"); do
        { tr '\0' '\n' <"/proc/$guardian/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$rank"; } 2>/dev/null || continue
        for pid in $(children "$guardian"); do
            [[ $(<"/proc/$pid/comm") != "${heat2d##*/}" ]] || { echo "$pid"; return; }
        done
    done 2>/dev/null
    return 1
}

progress() { grep -c '^iteration' "$1" 2>/dev/null || true; }

arguments() { echo "$nx $ny $iterations $out/$1.field --print-every $((iterations / lines))"; }

[[ -x $heat2d ]] || fail "$heat2d is missing; run make build."
[[ -f $layer ]] || fail "$layer is missing; run make build."
command -v mpirun >/dev/null || fail 'there is no mpirun on the PATH; call this by make demo, or after eval "$(make -s env)".'
((victim < workers)) || fail "DEMO_VICTIM must be a worker, 0 to $((workers - 1))."
((iterations >= lines)) || fail "DEMO_ITERATIONS must be at least $lines."

rm -rf "$out"
mkdir -p "$out/events"

say "1. heat2d on $workers ranks, undisturbed and without understudy"
started=$(date +%s%N)
# shellcheck disable=SC2046 # the arguments contain no spaces
timeout "$limit_s" mpirun "${mpirun_flags[@]}" -n "$workers" "$heat2d" $(arguments undisturbed) \
    </dev/null >"$out/undisturbed.stdout" 2>"$out/undisturbed.stderr" ||
    { cat "$out/undisturbed.stderr" >&2; fail "the undisturbed run ended with status $?."; }
say "   done after $((($(date +%s%N) - started) / 1000000)) ms; $(tail -n 1 "$out/undisturbed.stdout")"

say "2. the same on $workers workers and $spares spare, with understudy; worker $victim will be killed"
: >"$out/recovered.stdout" # it is polled before the job has opened it
# shellcheck disable=SC2046
timeout "$limit_s" mpirun "${mpirun_flags[@]}" -n "$((workers + spares))" \
    -x LD_PRELOAD="$layer" -x UNDERSTUDY_SPARES="$spares" -x UNDERSTUDY_INTERVAL=0.5s \
    -x UNDERSTUDY_EVENTS="$PWD/$out/events" \
    "$heat2d" $(arguments recovered) </dev/null >"$out/recovered.stdout" 2>"$out/recovered.stderr" &
mpirun_pid=$!

# In the middle of the run, by the number of printed lines.
while (($(progress "$out/recovered.stdout") < lines / 2)); do
    kill -0 "$mpirun_pid" 2>/dev/null || break
    sleep 0.02
done
killed=
if kill -0 "$mpirun_pid" 2>/dev/null; then
    # $! is timeout; the mpirun is its child.
    mpirun=$(children "$mpirun_pid" | head -n 1)
    pid=$(rank_pid "${mpirun:-0}" "$victim") || fail "worker $victim was not found."
    say "   $(progress "$out/recovered.stdout") of $lines progress lines printed: kill -9 $pid (worker $victim)"
    kill -9 "$pid"
    killed=$pid
fi
status=0
wait "$mpirun_pid" || status=$?
mpirun_pid=

cat "$out/recovered.stderr" >&2
((status != 124)) || fail "the run with understudy did not end within $limit_s s."
((status == 0)) || fail "the run with understudy ended with status $status; its output is in $out."
[[ -n $killed ]] || fail "the run with understudy ended before worker $victim could be killed; raise DEMO_ITERATIONS."
say "   done; $(tail -n 1 "$out/recovered.stdout")"

say "3. what happened"
target/release/understudy events --summary "$out/events" || fail "no readable events in $out/events."

say "4. comparison"
for part in field stdout; do
    cmp "$out/undisturbed.$part" "$out/recovered.$part" ||
        fail "the $part of the two runs differ."
    say "   $part: identical, $(stat -c %s "$out/recovered.$part") bytes"
done
say "OK: worker $victim was killed and replaced, and the job wrote the same bytes."
