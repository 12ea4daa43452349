#!/usr/bin/env bash
# Checks the shell scripts of the repository with the shellcheck of the PATH, or else with Debian's,
# which is unpacked into ./.env/shellcheck; nothing is installed. Prints that the check is skipped
# if neither is available.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
place=$PWD/.env/shellcheck

# Unpacks Debian's package; fails without apt-get, dpkg or the package.
unpack() {
    local scratch status=0
    command -v apt-get >/dev/null 2>&1 && command -v dpkg >/dev/null 2>&1 || return
    if [[ $(id -u) == 0 ]] && ! apt-cache show shellcheck >/dev/null 2>&1; then
        apt-get update -qq </dev/null >/dev/null 2>&1 || return
    fi
    scratch=$(mktemp -d)
    (cd "$scratch" && apt-get download -qq -o APT::Sandbox::User=root shellcheck) \
        </dev/null >/dev/null 2>&1 &&
        dpkg --extract "$scratch"/shellcheck_*.deb "$place" || status=1
    rm -rf "$scratch"
    return $status
}

if command -v shellcheck >/dev/null 2>&1; then
    program=shellcheck
else
    program=$place/usr/bin/shellcheck
    if [[ ! -x $program ]] && ! unpack; then
        echo 'SKIPPED: shellcheck is neither on the PATH nor in the package archive '
        exit 0
    fi
fi
mapfile -t scripts < <(git ls-files '*.sh' .ci/run)
"$program" --severity=warning "${scripts[@]}"
