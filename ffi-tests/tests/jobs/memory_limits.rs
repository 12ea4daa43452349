//! Control groups with a limit of memory that copies do not fit into.

use ffi_tests::place;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Status of a job that cannot be recovered.
const LOST: i32 = 75;
/// Limit of the group in MiB: the program fits, its copies do not.
const LIMIT_MIB: u64 = 420;

/// A control group that is removed at the end.
struct Group(PathBuf);

impl Group {
    /// Creates a group with the limit; `None` without the right to.
    fn new(name: &str) -> Option<Group> {
        let places = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ];
        places.iter().find_map(|(root, limit)| {
            let group = Group(Path::new(root).join(name));
            fs::create_dir(&group.0).ok()?;
            let bytes = (LIMIT_MIB << 20).to_string();
            // Without the file the group has no memory controller.
            let has_limit = group.0.join(limit).exists();
            (has_limit && fs::write(group.0.join(limit), bytes).is_ok()).then_some(group)
        })
    }

    /// Runs a command in the group.
    fn run(&self, command: &str) -> Output {
        let work = tempfile::tempdir().expect("there is room for temporary files");
        let command = format!(
            "echo $$ > {}/cgroup.procs; exec {command}",
            self.0.display()
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &command]).current_dir(work.path());
        shell.output().expect("there is a shell")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_process_killed_for_want_of_memory_ends_the_job_and_the_limit_is_named() {
    let _turn = place::turn();
    let Some(group) = Group::new(&format!("understudy-test-{}", std::process::id())) else {
        return place::skip("no control group can be made here");
    };
    let understudy = place::product("understudy").display().to_string();
    let program = place::example("heat2d").display().to_string();
    let run = format!("timeout 60 {understudy} run -n 3 --spares 1 --interval 50ms --no-daemon");
    let lost = group.run(&format!("{run} --progress none -- {program} 3000 3000 200"));
    let errors = String::from_utf8_lossy(&lost.stderr);
    assert_eq!(lost.status.code(), Some(LOST), "{errors}");
    let limit = format!("is limited to {LIMIT_MIB} MiB");
    let causes: Vec<&str> = errors
        .lines()
        .filter(|line| line.contains(&limit))
        .collect();
    assert!(
        causes.len() == 1 && causes[0].contains("want of memory"),
        "{errors}"
    );
    assert!(!errors.contains("starts again"), "{errors}");

    let doctor = group.run(&format!("{understudy} doctor"));
    let found = String::from_utf8_lossy(&doctor.stdout);
    let limit = format!("limited to {LIMIT_MIB}.0 MiB");
    assert!(found.contains(&limit), "{found}");
}
