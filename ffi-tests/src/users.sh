# shellcheck shell=sh
# Two users without mutual trust, with their own /dev/shm and processes.
#
#   users.sh DIRECTORY WORKSPACE SCRIPT
#
# To be run by root in new namespaces (mounts, processes). SCRIPT, a file, is
# read by this shell in DIRECTORY/alice and may use:
#
#   $alice $mallory         in front of a command: runs it as that user
#   $alice_id $mallory_id   their user IDs
set -e
directory=$1 workspace=$2 script=$3
umask 022
mount -t tmpfs -o mode=1777 tmpfs /dev/shm

# The workspace may be below a directory that only root can enter.
closed='' at=$(dirname "$workspace")
while [ "$at" != / ]; do
    case $(stat -c %A "$at") in
        *[xt]) ;;
        *) closed=$at ;;
    esac
    at=$(dirname "$at")
done
if [ -n "$closed" ]; then
    mkdir "$directory/workspace"
    mount --bind "$workspace" "$directory/workspace"
    mount -t tmpfs -o mode=755 tmpfs "$closed"
    mkdir -p "$workspace"
    mount --bind "$directory/workspace" "$workspace"
fi

alice_id=61001 mallory_id=61002
# shellcheck disable=SC2034
alice="setpriv --reuid $alice_id --regid $alice_id --clear-groups"
# shellcheck disable=SC2034
mallory="setpriv --reuid $mallory_id --regid $mallory_id --clear-groups"
mkdir "$directory/alice"
chown $alice_id:$alice_id "$directory/alice"
cd "$directory/alice"
export TMPDIR="$PWD" HOME="$PWD"
unset XDG_RUNTIME_DIR
set +e
# shellcheck disable=SC1090
. "$script"
