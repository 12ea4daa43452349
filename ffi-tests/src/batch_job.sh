# shellcheck shell=sh
# Submits a batch job of Slurm, and waits until the job is over.
#
#   batch_job.sh DIRECTORY OPTIONS COMMAND…
#
# The job is DIRECTORY/script with the arguments COMMAND…. OPTIONS are those of sbatch, in one
# word. Standard output and errors of all starts of the job are joined in DIRECTORY/stdout and
# DIRECTORY/stderr. Slurm delays the next start of a requeued job by two minutes; this script does
# not wait for that. Exits with 0 if the job has completed.
directory=$1 options=$2
shift 2
# shellcheck disable=SC2086
job=$(sbatch --parsable --open-mode=append --output="$directory/stdout" \
    --error="$directory/stderr" $options "$directory/script" "$@") || exit
unusual=0
while [ $unusual -lt 20 ]; do
    state=$(squeue --noheader --states=all --jobs="$job" --format='%T %r')
    case $state in
    "PENDING BeginTime") scontrol update JobId="$job" StartTime=now ;;
    "COMPLETED "*) exit 0 ;;
    "PENDING "* | "RUNNING "* | "COMPLETING "* | "REQUEUED "*) unusual=0 ;;
    # A job that is being requeued has such a state for a moment.
    *) unusual=$((unusual + 1)) ;;
    esac
    sleep 0.1
done
echo "Slurm's job is $state" >>"$directory/stderr"
exit 1
