# shellcheck shell=sh
# Runs a job of Grid Engine on hosts that are namespaces, and waits for its end.
#
#   grid_engine_job.sh TREE DIRECTORY AGENT SLOTS "NODE…" COMMAND…
#
# TREE has the unpacked packages. The host of this script has the master only; the agent starts
# commands on the other hosts. The job has SLOTS on each node. Its standard output and errors are
# DIRECTORY/stdout and DIRECTORY/stderr. The daemons end with the namespaces of their hosts; they
# lack the variable by which the processes of the job are found.
set -e
tree=$1 directory=$2 agent=$3 slots=$4 nodes=$5
shift 5
state=$directory/grid-engine
common=$state/default/common
export SGE_ROOT="$state" SGE_CELL=default SGE_QMASTER_PORT=6444 SGE_EXECD_PORT=6445
mkdir -p "$common" "$state/bin" "$state/utilbin" "$state/qmaster/job_scripts"
exec 3>"$state/log"

# The programs search files in /usr. The packages are visible there on these hosts only.
mount="mount -t overlay -o lowerdir=$tree/usr:/usr overlay /usr"
$mount
architecture=$(/usr/share/gridengine/util/arch)
ln -s /usr/lib/gridengine "$state/bin/$architecture"
ln -s /usr/lib/gridengine "$state/utilbin/$architecture"
ln -s /usr/share/gridengine/util "$state/util"

# Users with low numbers may run jobs, too: the tests run as root.
defaults=/usr/share/gridengine
sed "s|^admin_user .*|admin_user none|; s|^spooling_method .*|spooling_method classic|
     s|^spooling_lib .*|spooling_lib libspoolc|; s|^binary_path .*|binary_path $state/bin|
     s|^spooling_params .*|spooling_params $common;$state/qmaster|
     s|^qmaster_spool_dir .*|qmaster_spool_dir $state/qmaster|" \
    "$defaults/default-bootstrap" >"$common/bootstrap"
sed "s|^execd_spool_dir .*|execd_spool_dir $state/execd|; s|^min_\(.\)id .*|min_\1id 0|" \
    "$defaults/default-configuration" >"$state/configuration"
hostname >"$common/act_qmaster"
{
    /usr/lib/gridengine/spoolinit classic libspoolc "$common;$state/qmaster" init
    /usr/lib/gridengine/spooldefaults configuration "$state/configuration"
    /usr/lib/gridengine/spooldefaults complexes "$defaults/util/resources/centry"
    /usr/lib/gridengine/spooldefaults usersets "$defaults/util/resources/usersets"
    /usr/lib/gridengine/spooldefaults managers "$(id -un)"
    env -u FFI_TEST_ID sge_qmaster
} >&3 2>&1
until qconf -sh >&3 2>&1; do sleep 0.1; done

# define KIND NAME=VALUE…: adds an object of this kind, described by lines of a file.
define() {
    kind=$1
    shift
    printf '%s\n' "$@" | sed 's/=/ /' >"$state/object"
    qconf "$kind" "$state/object" >&3 2>&1
}
qconf -as "$(hostname)" >&3 2>&1
sequence=0 number=0
for node in $nodes; do
    qconf -ah "$node" >&3 2>&1
    qconf -as "$node" >&3 2>&1
    define -Ae "hostname=$node" load_scaling=NONE complex_values=NONE user_lists=NONE \
        xuser_lists=NONE projects=NONE xprojects=NONE usage_scaling=NONE report_variables=NONE
    number=$((number + 1))
    sequence="$sequence,[$node=$number]"
    "$agent" "$node" "$mount; export SGE_ROOT=$SGE_ROOT SGE_CELL=$SGE_CELL \
        SGE_QMASTER_PORT=$SGE_QMASTER_PORT SGE_EXECD_PORT=$SGE_EXECD_PORT; \
        env -u FFI_TEST_ID sge_execd" >&3 2>&1
done
define -Ap pe_name=understudy slots=999 user_lists=NONE xuser_lists=NONE start_proc_args=NONE \
    stop_proc_args=NONE allocation_rule="$slots" control_slaves=TRUE job_is_first_task=FALSE \
    urgency_slots=min accounting_summary=FALSE qsort_args=NONE
qconf -sq | sed "s/^qname .*/qname all.q/; s/^hostlist .*/hostlist $nodes/
    s/^slots .*/slots $slots/; s/^pe_list .*/pe_list understudy/
    s/^load_thresholds .*/load_thresholds NONE/; s/^seq_no .*/seq_no $sequence/" >"$state/queue"
qconf -Aq "$state/queue" >&3 2>&1
# Nodes are allocated in their order.
qconf -ssconf | sed 's/^queue_sort_method .*/queue_sort_method seqno/' >"$state/scheduler"
qconf -Msconf "$state/scheduler" >&3 2>&1
until [ "$(qhost | grep -c "$architecture")" = "$number" ]; do sleep 0.1; done

qsub -sync y -V -wd "$PWD" -b y -o "$directory/stdout" -e "$directory/stderr" \
    -pe understudy $((number * slots)) "$@" >&3 2>&1
