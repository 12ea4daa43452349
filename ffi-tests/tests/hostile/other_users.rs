//! Attacks by another user of the node.
//!
//! The other user plants names, reads files, connects to ports, and exchanges directories and
//! links.

use ffi_tests::command::UnderstudyCommand;
use ffi_tests::kill::fault_at_commit;
use ffi_tests::{paths, processes, users};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// FIFOs and huge files under names of a job's files do not disturb its recovery.
///
/// A FIFO in place of a lock would block a process that opens it, and a huge file a process that
/// reads it. Names of jobs can be guessed.
#[test]
fn names_that_others_plant_do_not_disturb_a_job() {
    let script = r#"
        host=$(uname -n)
        names() { for pid in $(seq 2 500); do for rank in 0 1 2 3; do
            echo "/dev/shm/understudy-ckptd-$host-$pid@1-$rank$1"; done; done; }
        for kind in '' .undo-lock .undo-new; do names $kind | xargs $mallory mkfifo -m 666; done
        names .undo | xargs $mallory truncate -s 200G
        names .undo | xargs $mallory chmod 666
        mkdir native protected; chown $alice_id native protected
        (cd native; $alice mpirun --oversubscribe -n 3 "$programs/files" 20 > output; echo native $?)
        (cd protected; $alice timeout -s KILL 60 "$layer" run -n 3 --no-daemon --interval 5calls \
            --fault 'kill rank=1 at=commit.end epoch=3' -- "$programs/files" 20 > output 2> ../errors; echo protected $?)
        diff -r native protected && echo equal
        grep -c 'worker 1 failed' errors
        grep -e 'file-content-not-kept' -e 'appear twice' errors
        $mallory touch /dev/shm/understudy-$alice_id/x || echo kept out
        find /dev/shm/understudy-$alice_id -type f
        sh -c '[ $$ -lt 500 ] || echo names of other jobs were planted'
    "#;
    let Some(output) = users::run(script) else {
        return;
    };
    users::assert_lines(
        &output,
        &["native 0", "protected 0", "equal", "1", "kept out"],
    );
}

/// Ports of the loopback interface are open to every user.
///
/// No port of a job keeps a connection of another user.
#[test]
fn connections_of_others_are_closed() {
    let script = r#"
        # Other tests run jobs of alice on the same host.
        alice_id=61003 alice='setpriv --reuid 61003 --regid 61003 --clear-groups'
        mkdir out; chown $alice_id . out
        $mallory "$programs/crowd" $alice_id 60 "$PWD/out/end" > crowd &
        $alice timeout -s KILL 60 "$layer" run -n 3 --spares 1 --no-daemon --interval 20calls \
            --fault "$kill" -- "$examples/heat2d" 200 200 4000 > out/output 2> out/errors
        echo $?
        touch out/end; wait
        grep -c 'worker 1 failed' out/errors
        cat crowd
        $alice mpirun --oversubscribe -n 3 "$examples/heat2d" 200 200 4000 | cmp - out/output && echo equal
    "#;
    let kill = fault_at_commit(1, 3);
    let Some(output) = users::run(&format!("kill='{kill}'\n{script}")) else {
        return;
    };
    users::assert_lines(&output, &["0", "1", "ports: 3, left open: 0", "equal"]);
}

/// Planted names of newer checkpoints in a directory that all users may write to.
///
/// The names stop no job, and no job loads the files.
#[test]
fn epochs_that_others_plant_are_left_alone() {
    let script = r#"
        mkdir -m 1777 disk
        run() { $alice timeout -s KILL 60 "$layer" run -n 2 --no-daemon --interval 5calls --disk disk "$@" 2> errors; echo $?; }
        run -- "$programs/aborting" 40 10 > /dev/null
        for worker in 0 1; do
            newest=$(ls disk | grep "w0000$worker.epoch" | tail -n 1)
            $mallory mkfifo -m 666 disk/${newest%-*-*}-99999999-w0000$worker.epoch
            $mallory truncate -s 200G disk/${newest%-*-*}-99999998-w0000$worker.epoch
            $mallory chmod 666 disk/${newest%-*-*}-99999998-w0000$worker.epoch
        done
        run --restart -- "$programs/aborting" 40 10 > /dev/null
        grep -c -e 'the job continues from checkpoint [0-9]\{1,4\} on disk' errors
        grep -e 9999999 errors
        timeout 20 "$layer" inspect disk > found; echo $?; grep -c 'not a regular file' found
    "#;
    let Some(output) = users::run(script) else {
        return;
    };
    users::assert_lines(&output, &["1", "1", "2"]);
}

/// Another user plants the directory of the user's jobs: no job stores anything there.
#[test]
fn a_planted_directory_is_refused() {
    let script = r#"
        place=/dev/shm/understudy-$alice_id
        mkdir mine; chown $alice_id mine
        attempt() {
            $alice timeout -s KILL 60 "$layer" run -n 2 --no-daemon $1 -- "$examples/heat2d" 40 40 20 > out 2> errors
            echo $? $(grep -o -e 'symbolic link' -e 'belongs to user [0-9]*' -e 'not a directory' -e 'the job stops' \
                -e 'ask the administrator' -e 'runs unprotected' errors)
            rm -rf $place
        }
        $mallory mkdir -m 777 $place;   attempt
        $mallory ln -s "$PWD/mine" $place; attempt
        $mallory mkfifo -m 666 $place;  attempt
        $mallory mkdir -m 777 $place;   attempt --allow-unprotected
        $mallory mkdir -m 777 $place;   $alice "$layer" clean; $alice "$layer" doctor --mpirun mpirun | grep -o "$place belongs"
        ls mine
    "#;
    let Some(output) = users::run(script) else {
        return;
    };
    let lines = [
        "78 belongs to user 61002 ask the administrator the job stops",
        "78 symbolic link ask the administrator the job stops",
        "78 not a directory ask the administrator the job stops",
        "0 belongs to user 61002 ask the administrator runs unprotected",
        "0 B in 0 files freed",
        "/dev/shm/understudy-61001 belongs",
    ];
    users::assert_lines(&output, &lines);
}

/// The job is protected in another directory, if there is one, and leaves no file.
///
/// A directory that the user names and that does not exist is an error.
#[test]
fn a_planted_directory_is_avoided() {
    let script = r#"
        place=/dev/shm/understudy-$alice_id
        mkdir -m 700 session named; touch out errors native; chown $alice_id session named out errors native
        $mallory mkdir -m 777 $place
        $alice mpirun --oversubscribe -n 2 "$examples/heat2d" 40 40 400 > native
        attempt() {
            env "$@" $alice timeout -s KILL 60 "$layer" run -n 2 --spares 1 --no-daemon --interval 20calls \
                --fault "$kill" -- "$examples/heat2d" 40 40 400 > out 2> errors
            echo $? $(grep -c 'worker 1 failed' errors) $(cmp out native && echo equal)
        }
        attempt XDG_RUNTIME_DIR="$PWD/session"
        attempt XDG_RUNTIME_DIR="$PWD/session" UNDERSTUDY_RUNTIME_DIR="$PWD/named"
        rmdir $place
        attempt XDG_RUNTIME_DIR="$PWD/session"
        attempt UNDERSTUDY_RUNTIME_DIR="$PWD/missing"
        grep -o 'UNDERSTUDY_RUNTIME_DIR names .*/missing, .*No such file.*mode 1777' errors > named_it && echo names it
        find session named -mindepth 1 | sort
        ls /dev/shm | grep understudy
    "#;
    let kill = fault_at_commit(1, 3);
    let Some(output) = users::run(&format!("kill='{kill}'\n{script}")) else {
        return;
    };
    let lines = [
        "0 1 equal",
        "0 1 equal",
        "0 1 equal",
        "78 0",
        "names it",
        "named/understudy-61001",
        "session/understudy-61001",
    ];
    users::assert_lines(&output, &lines);
}

/// A program that runs unprotected has as many ranks as without understudy.
#[test]
fn an_unprotected_program_has_all_processes_as_ranks() {
    let script = r#"
        $mallory mkdir -m 777 /dev/shm/understudy-$alice_id
        touch out errors; chown $alice_id out errors
        preload=$(dirname "$layer")/libunderstudy.so
        for spares in 0 1; do
            $alice timeout -s KILL 60 mpirun --oversubscribe -n 3 -x LD_PRELOAD=$preload -x UNDERSTUDY_SPARES=$spares \
                "$examples/heat2d" 40 40 20 > out 2> errors
            echo $? $(grep -o '[0-9]* ranks' out) $(grep -o 'runs unprotected.*' errors)
        done
    "#;
    let Some(output) = users::run(script) else {
        return;
    };
    let lines = [
        "0 3 ranks runs unprotected",
        "0 3 ranks runs unprotected, with the 1 spare(s) as further ranks: 3 in all",
    ];
    users::assert_lines(&output, &lines);
}

/// Only the user can read the files of a job, whatever umask and directory allow.
///
/// The files are checkpoints, undo logs, event files, and the record of the run.
#[test]
fn files_of_a_job_are_private() {
    let script = r#"
        umask 000
        chmod 755 .; mkdir -m 755 open; chown $alice_id open; touch out errors; chown $alice_id out errors
        for disk in open made; do
            $alice timeout -s KILL 60 "$layer" run -n 3 --no-daemon --interval 20calls --disk $disk --events events \
                -- "$programs/aborting" 40 10 > out 2> errors
            echo $disk $? $(find $disk -name '*.epoch' | grep -q . && echo has checkpoints)
        done
        find events -name '*.events' | grep -q . && test -s events/run.json && echo has events
        find open made events -type f -perm /077
        $mallory cat open/* made/* events/* /dev/shm/understudy-$alice_id/* 2> denied
        stat -c %a made
    "#;
    let Some(output) = users::run(script) else {
        return;
    };
    users::assert_lines(
        &output,
        &[
            "open 37 has checkpoints",
            "made 37 has checkpoints",
            "has events",
            "700",
        ],
    );
}

/// Root cleans a node while another user exchanges a directory and a link.
///
/// The link leads to root's directory.
#[test]
fn cleaning_follows_no_links_of_others() {
    let script = r#"
        mkdir -p -m 700 victim/held/x; echo precious > victim/held/x/file
        $mallory mkdir -p /dev/shm/planted/held/x
        $mallory sh -c 'printf /nowhere > /dev/shm/planted/held/x/directory; cp -r /dev/shm/planted /dev/shm/understudy-0'
        rm -r /dev/shm/planted
        $mallory ln -s "$PWD/victim" /dev/shm/link
        $mallory "$programs/exchange" /dev/shm/understudy-0 /dev/shm/link 2 > exchanged &
        while kill -0 $! 2> /dev/null; do "$layer" clean > cleaned 2>&1 || { echo failed; cat cleaned; }; done
        cat exchanged victim/held/x/file
    "#;
    let Some(output) = users::run(script) else {
        return;
    };
    users::assert_lines(&output, &["exchanged often", "precious"]);
}

const SECRET: &str = "UNDERSTUDY_SECRET";

/// Data of a running job: guards, their secret, and command lines.
#[derive(Default)]
struct Seen {
    /// Stack canary and pointer guard, by process of the program.
    guards: BTreeMap<u32, [u8; 16]>,
    /// Values of the secret in environments.
    secrets: BTreeSet<String>,
    command_lines: BTreeSet<String>,
}

/// Runs a job with or without a secret in the launcher's environment.
fn watched(secret: Option<&str>) -> Seen {
    let work = tempfile::tempdir().expect("there is room for temporary files");
    let program = paths::example("heat2d").to_string_lossy().into_owned();
    let line = [
        "run",
        "-n",
        "2",
        "--no-daemon",
        "--",
        &program,
        "200",
        "200",
        "2000",
    ];
    let run = match secret {
        Some(secret) => UnderstudyCommand::new(work.path(), &line).env(SECRET, secret),
        None => UnderstudyCommand::new(work.path(), &line).without(SECRET),
    };
    let seen = Rc::new(RefCell::new(Seen::default()));
    let found = Rc::clone(&seen);
    let ran = run
        .during(move |child| {
            let Seen {
                guards,
                secrets,
                command_lines,
            } = &mut *found.borrow_mut();
            for pid in processes::all().filter(|&pid| processes::descends(pid, child.id())) {
                let [line, environment] = processes::words(pid);
                let secret_of = |entry: &String| {
                    Some(entry.strip_prefix(SECRET)?.strip_prefix('=')?.to_owned())
                };
                secrets.extend(environment.iter().filter_map(secret_of));
                // Before the process has a ledger, it has the kernel's random bytes.
                if line.first() == Some(&program)
                    && !processes::mapped_shared_memory(pid).is_empty()
                    && let Some(bytes) = processes::random_bytes(pid)
                {
                    guards.insert(pid, bytes);
                }
                command_lines.insert(line.join(" "));
            }
        })
        .run();
    ran.assert(0, &[]);
    seen.take()
}

/// Stack canary and pointer guard of all ranks are equal.
///
/// No other user can derive them from data that all users can read.
#[test]
fn guards_are_derived_from_a_secret_that_is_on_no_command_line() {
    let runs = [Some("told"), Some("told"), None].map(watched);
    let guards = |run: &Seen| run.guards.values().copied().collect::<BTreeSet<_>>();
    for run in &runs {
        assert_eq!(
            (run.guards.len(), guards(run).len()),
            (3, 1),
            "{:?}",
            run.guards
        );
        let secret = run
            .secrets
            .first()
            .expect("the launcher has it in its environment");
        assert_eq!(run.secrets.len(), 1);
        let found = run
            .command_lines
            .iter()
            .find(|line| line.contains(secret.as_str()));
        assert_eq!(found, None, "every user may read it");
    }
    assert_eq!(
        guards(&runs[0]),
        guards(&runs[1]),
        "the guards do not depend on the secret alone"
    );
    assert_ne!(guards(&runs[0]), guards(&runs[2]));
    assert_eq!(runs[2].secrets.first().map(String::len), Some(32));
}

/// A rollback restores read-only files of an ordinary user, who may not write to them.
#[test]
fn attributes_and_childrens_files_are_put_back_for_an_ordinary_user() {
    let script = r#"
        for program in inodes child_files; do
            mkdir native protected; chown $alice_id native protected
            (cd native; $alice mpirun --oversubscribe -n 3 "$programs/table/$program" 8 > ../expected)
            (cd protected; $alice timeout -s KILL 60 "$layer" run -n 3 --no-daemon --interval 5calls \
                --fault 'kill rank=1 at=call:18' -- "$programs/table/$program" 8 > ../output 2> ../errors)
            echo $?
            cmp expected output && echo equal
            grep -c 'worker 1 failed' errors
            rm -r native protected
        done
    "#;
    let Some(output) = users::run(script) else {
        return;
    };
    users::assert_lines(&output, &["0", "equal", "1", "0", "equal", "1"]);
}

/// Another user's socket has the name of a rank's socket for reports of its children.
///
/// The name can be guessed. The socket receives no reports, and cannot block a child; a line
/// reports that files of children are not restored.
#[test]
fn a_socket_in_the_place_of_a_ranks_is_not_used() {
    let script = r#"
        cat > squat.py << 'END'
import os, socket, sys, time
held = []
space = os.stat("/proc/self/ns/pid").st_ino
for process in range(2, 4000):
    held.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    try:
        held[-1].bind("\0understudy-effects-%d-%d" % (space, process))
        held[-1].listen()
    except OSError:
        held.pop().close()
open("ready", "w").write(str(len(held)))
while not os.path.exists("end"):
    time.sleep(0.05)
END
        chmod 777 .
        ulimit -n 8192
        $mallory python3 squat.py & while [ ! -e ready ]; do sleep 0.05; done
        mkdir native protected; chown $alice_id native protected
        (cd native; $alice mpirun --oversubscribe -n 2 "$programs/appends" 6 > ../expected)
        (cd protected; $alice timeout -s KILL 60 "$layer" run -n 2 --no-daemon --interval 5calls \
            -- "$programs/appends" 6 > ../output 2> ../errors)
        echo $?
        cmp expected output && echo equal
        grep -c 'files that child processes change are not restored after a failure: ' errors
        touch end; wait
    "#;
    let Some(output) = users::run(script) else {
        return;
    };
    users::assert_lines(&output, &["0", "equal", "1"]);
}
