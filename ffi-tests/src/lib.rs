//! Runs MPI jobs with and without understudy, kills ranks, and compares the output.
//!
//! ```text
//!   Job::new(program, arguments)   workers, spares, settings, files of a job
//!      .kill(Kill { … })           a rank that is killed by SIGKILL, and the moment
//!      .run() → Outcome            output, files, events, and what was left behind
//!   Outcome::assert_like(&native)  bytes equal to those of an undisturbed run without understudy
//! ```
//!
//! - [`job`]: a job and its run; [`outcome`]: its result; `comparisons`: comparisons of results;
//!   [`native_runs`]: runs without understudy;
//! - [`namespace_hosts`]: several hosts on one machine; [`slurm_installation`],
//!   [`slurm_allocation`], [`grid_engine`]: batch systems; [`users`]: several users;
//! - [`kill`]: moments of failures; [`processes`]: /proc; [`living_processes`]: processes under
//!   guardians;
//! - [`command`]: the `understudy` command; [`daemon_process`]: `ckptd serve`;
//!   [`plain_commands`]: commands outside of mpirun; [`verdicts`]: many runs, one verdict;
//! - [`reduced_replicas`]: replicas without static data; [`hang`]: diagnosis of a job that does not
//!   end;
//! - [`open_mpi_4`]: the distribution's Open MPI, and Fortran programs; [`intel_programs`]: those
//!   of Intel MPI;
//! - [`root_file_system`]: other distributions;
//! - [`library_programs`]: programs of the distribution's libraries;
//! - [`test_names`]: tests that documents name; [`page_scripts`]: scripts of the book;
//! - [`paths`]: paths of products, MPI and example programs; [`programs`]: those programs with
//!   their arguments;
//! - [`run_directory`]: what the tests of a run share; [`requirements`]: tests that are skipped.
//!
//! `ffi-tests/run` runs each test in a process of its own. `.config/nextest.toml` states which
//! tests need the machine for themselves. Environment variables:
//!
//! - `UNDERSTUDY_LIB_DIR`: directory of libunderstudy.so;
//! - `FFI_TESTS_SEED`: repeats the random moments of an earlier run;
//! - `FFI_TESTS_KEEP=1`: keeps the directories of all jobs;
//! - `FFI_TESTS_REQUIRE`: requirements whose absence is a failure, see [`requirements`];
//! - `FFI_TESTS_ALL=1`: runs all rows of the tables of variants, see [`variants`];
//! - `FFI_TESTS_LAUNCHER`: launcher of most jobs, see [`paths::launcher`].

pub mod command;
mod comparisons;
pub mod daemon_process;
pub mod grid_engine;
pub mod hang;
pub mod intel_programs;
pub mod job;
mod job_directory;
pub mod kill;
pub mod library_programs;
pub mod living_processes;
pub mod namespace_hosts;
pub mod native_runs;
pub mod open_mpi_4;
pub mod outcome;
pub mod page_scripts;
pub mod paths;
pub mod plain_commands;
pub mod processes;
pub mod programs;
pub mod random;
pub mod reduced_replicas;
pub mod requirements;
pub mod root_file_system;
pub mod run_directory;
pub mod slurm_allocation;
pub mod slurm_installation;
mod stored_outcome;
pub mod temporary_directories;
pub mod test_names;
pub mod users;
pub mod verdicts;

pub use comparisons::Canonical;
pub use job::{Job, KillScope};
pub use kill::{Kill, Trigger, fault_at_commit};
pub use outcome::Outcome;
pub use paths::Launcher;
pub use random::Random;
pub use requirements::{Requirement, skip};
pub use verdicts::Verdicts;

use std::time::Duration;

/// Time after which a job counts as hanging.
///
/// The time is long because virtual machines are paused now and then: the kernel of one reported
/// 46 s in which no processor ran.
pub const JOB_LIMIT: Duration = Duration::from_secs(150);

/// Exit status of a job that must be protected and cannot be protected.
pub const REFUSED: i32 = 78;

/// True if variants are run too (`FFI_TESTS_ALL`), as in `make test-all` and `make sweep`.
pub fn is_thorough() -> bool {
    std::env::var_os("FFI_TESTS_ALL").is_some()
}

/// Returns the first `count` rows of a table of variants; all if [`is_thorough`].
pub fn variants<Rows: IntoIterator>(rows: Rows, count: usize) -> impl Iterator<Item = Rows::Item> {
    rows.into_iter()
        .take(if is_thorough() { usize::MAX } else { count })
}
