# shellcheck shell=sh
# Makes hosts out of namespaces.
#
# Each host has its own network, host name, processes, /dev/shm and temporary
# directory. The namespaces have no names outside. The script of the first host
# ends at the end of its standard input, and all namespaces end with that script.
#
#   hosts.sh first DIRECTORY PREFIX COUNT NETWORK NAMED    hosts PREFIX1 … PREFIXcount
#   hosts.sh other DIRECTORY NAME                          one of them, started by the first
#
# NETWORK is the beginning of the addresses, such as 10.77.0. or fd77::, and NAMED
# that of the addresses for which the names stand.
#
# To be run in new namespaces (network, host name, mounts, processes). The first
# host's network has the bridge that joins all hosts. The first host's PID
# namespace is an ancestor of the other hosts' PID namespaces, since only
# processes of an ancestor can enter a PID namespace. The script writes
# DIRECTORY/agent, which starts a command on a host as ssh would.
set -e
part=$1 directory=$2 name=$3

settle() {
    hostname "$1"
    # A new sysfs shows the devices of the new network namespace; the cgroup
    # mounts are kept.
    mount --rbind /sys/fs/cgroup "$directory/groups"
    mount -t sysfs sysfs /sys
    mount --rbind "$directory/groups" /sys/fs/cgroup
    mount -t tmpfs tmpfs /dev/shm
    mount -t tmpfs tmpfs "$directory/tmp"
    mount --bind "$directory/hosts" /etc/hosts
    ip link set lo up
}

if [ "$part" = other ]; then
    settle "$name"
    echo ready > "$directory/$name.ready"
    exec sleep infinity
fi

network=$5
case $network in
    # Without nodad an address could not be used for a second.
    *:*) length="64 nodad" ;;
    *) length=24 ;;
esac
mkdir "$directory/tmp" "$directory/groups"
echo "127.0.0.1 localhost" > "$directory/hosts"
for number in $(seq "$4"); do
    echo "$6$number $name$number" >> "$directory/hosts"
done
cat > "$directory/agent" <<AGENT
#!/bin/sh
of=/proc/\$(cat "$directory/\$1")/ns
shift
export TMPDIR="$directory/tmp"
exec nsenter --net=\$of/net --uts=\$of/uts --mount=\$of/mnt --pid=\$of/pid_for_children sh -c "\$*"
AGENT
chmod +x "$directory/agent"

settle "${name}1"
# By default, a bridge has the lowest address of its ports. If a host with that address is lost,
# the other hosts would send to the old address until their ARP entries are out of date.
ip link add bridge address 02:00:0a:4d:00:01 type bridge
# shellcheck disable=SC2086
ip addr add "${network}1"/$length dev bridge
ip link set bridge up
for number in $(seq 2 "$4"); do
    host=$name$number
    mkfifo "$directory/$host.ready"
    unshare --net --uts --mount --pid --fork --kill-child --mount-proc sh "$0" other "$directory" "$host" &
    echo $! > "$directory/$host"
    read -r _ < "$directory/$host.ready"
    ip link add "to$number" type veth peer name eth0 netns $!
    ip link set "to$number" master bridge up
    nsenter --net=/proc/$!/ns/net sh -c "ip addr add $network$number/$length dev eth0 && ip link set eth0 up"
done
echo ready
read -r _ || true
