//! Files that other processes have moved, removed or created since the checkpoint.
//!
//! A rollback leaves such files as they are and reports them.

use ffi_tests::users;
use std::process::Output;

/// Runs a script that defines the shell function `attack` and calls `job WHAT FILE`.
///
/// The function `job` runs a job that does WHAT to FILE, calls `attack`, kills a worker, and prints
/// the exit status, the output, and words of the messages about the file.
fn run(script: &str) -> Option<Output> {
    let common = r#"
        umask 077
        job() { # WHAT FILE, after a function attack
            what=$1 file=$2
            rm -f acted killed pid out errors; touch out errors; chown $alice_id out errors
            $alice timeout -s KILL 60 "$layer" run -n 2 --spares 1 --no-daemon --interval 20calls \
                -- "$programs/outsider" $what $file > out 2> errors &
            job=$!
            for i in $(seq 400); do [ -e acted ] && break; sleep 0.05; done
            attack
            kill -9 $(cat pid)
            touch killed
            wait $job
            # Each process of the node may say so.
            echo $? $(cat out) $(grep -o -e 'cannot be restored to its state' -e 'another file has its name' \
                -e 'is another directory' -e 'has been moved, removed or exchanged' errors | sort -ru)
        }
    "#;
    users::run(&format!("{common}\n{script}"))
}

/// A script writes another file with the name of a rank's file; that file stays.
///
/// The job reports the file and ends.
#[test]
fn a_file_in_the_place_of_the_jobs_stays() {
    let script = r#"
        attack() { :; }
        job make data
        attack() { $alice mv data moved; $alice sh -c 'echo of the script > data'; }
        rm -f data
        job make data; cat data moved
        echo old > data; chown $alice_id data
        attack() { $alice sh -c 'echo of the script > data'; }
        job remove data; cat data
    "#;
    let Some(output) = run(script) else {
        return;
    };
    let refused = "74 cannot be restored to its state another file has its name";
    let lines = [
        "0 sum 1270, the file holds of the job",
        refused,
        "of the script",
        "of the job",
        refused,
        "of the script",
    ];
    users::assert_lines(&output, &lines);
}

/// Another user exchanges a directory for a link to a private directory, which stays intact.
#[test]
fn nothing_is_undone_through_the_link_of_another_user() {
    let script = r#"
        mkdir -m 777 shared; chmod 755 .; mkdir -m 700 private; chown $alice_id private
        attack() {
            $mallory mv shared/sub shared/away; $mallory ln -s "$PWD/private" shared/sub
            [ -e private/data ] || $alice sh -c 'echo private > private/data'
        }
        for what in make change remove; do
            rm -rf shared/*; mkdir shared/sub; chown $alice_id shared/sub
            [ $what = make ] || $alice sh -c 'echo old > shared/sub/data'
            job $what shared/sub/data; cat private/data; ls -A private
        done
    "#;
    let Some(output) = run(script) else {
        return;
    };
    let lines = [
        "74 is another directory cannot be restored to its state",
        "private",
        "data",
    ];
    users::assert_lines(&output, &[lines, lines, lines].concat());
}

/// A script removes hidden files with earlier content; the job reports that and ends.
#[test]
fn a_missing_backup_is_reported() {
    let script = r#"
        attack() { $alice sh -c 'rm .understudy-*'; }
        for what in change remove; do
            head -c 200000 /dev/zero | tr '\0' o > data; chown $alice_id data
            job $what data
        done
        attack() { :; }
        head -c 200000 /dev/zero | tr '\0' o > data; chown $alice_id data
        job remove data
    "#;
    let Some(output) = run(script) else {
        return;
    };
    let gone = "74 has been moved, removed or exchanged cannot be restored to its state";
    users::assert_lines(&output, &[gone, gone, "0 sum 1270, the file holds nothing"]);
}
