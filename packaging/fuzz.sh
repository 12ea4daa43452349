#!/usr/bin/env bash
# Builds the fuzz targets with the stable compiler (libFuzzer needs no nightly compiler without a
# sanitizer) and runs each of them for its share of the time.
#
#     packaging/fuzz.sh SECONDS [TARGET…]
#
# Failing inputs are stored in fuzz/artifacts, the corpus in fuzz/corpus.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../fuzz"

seconds=${1:?"usage: packaging/fuzz.sh SECONDS [TARGET...]"}
shift
targets=("$@")
[[ ${#targets[@]} -gt 0 ]] || mapfile -t targets < <(sed -n 's/^name = "\([a-z]*\)"$/\1/p' Cargo.toml)

# The targets use the project's versions of crates; cargo adds the crates that only targets need.
cp ../Cargo.lock Cargo.lock
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-../target}/fuzz
triple=$(rustc -vV | sed -n 's/^host: //p')
# The flags of cargo-fuzz, by which libFuzzer measures coverage. With --target, they do not apply to
# build scripts and macros.
export RUSTFLAGS="--cfg fuzzing -Ccodegen-units=1 -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
"${CARGO:-cargo}" build --quiet --release --target "$triple" --bins

share=$((seconds / ${#targets[@]}))
for target in "${targets[@]}"; do
    mkdir -p "corpus/$target" "artifacts/$target"
    printf '==> %s, %d s\n' "$target" "$share"
    log=$(mktemp)
    if ! "$CARGO_TARGET_DIR/$triple/release/$target" -max_total_time="$((share > 0 ? share : 1))" -timeout=10 -rss_limit_mb=2048 -max_len=8192 \
        -print_final_stats=1 -artifact_prefix="artifacts/$target/" "corpus/$target" >"$log" 2>&1; then
        # Prints the failure and its place, then the input.
        grep -A 2 'panicked at\|ERROR: libFuzzer' "$log" || true
        tail -n 12 "$log"
        printf '==> %s has found something; fuzz/artifacts/%s has the input\n' "$target" "$target"
        rm -f "$log"
        exit 1
    fi
    sed -n '/^#.*DONE\|number_of_executed_units\|peak_rss/p' "$log"
    rm -f "$log"
done
