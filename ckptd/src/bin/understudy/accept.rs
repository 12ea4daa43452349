//! `understudy accept`: kills processes of small jobs on the nodes of an allocation.
//!
//! A site is accepted if every job ends with the bytes of a run without understudy.

mod acceptance_program;
mod acceptance_report;
mod node_kill;
mod placement;
mod running_job;
mod trial_job;
mod trial_table;

use crate::outcome::{DEFECT_FOUND, Failure, IMPOSSIBLE, Outcome, print};
use crate::{doctor, product_files};
use acceptance_program::AcceptanceProgram;
use acceptance_report::JobResults;
use ckptd::host_options::HostOptions;
use placement::Placement;
use std::path::PathBuf;
use std::process::ExitCode;
use trial_job::{FAULT, TrialJobs};
use trial_table::Trial;
use understudy_html::{Acceptance, AcceptanceRow, AcceptanceSection, RowVerdict, acceptance_page};
use understudy_launch::print_message;

/// Try real failures on the nodes of an allocation, for an administrator.
///
/// Checks the parts that jobs would use here. Then small jobs run on them, ranks and all processes
/// of a node are killed, and the bytes of each job are compared with those of a run without
/// understudy. Prints a report, and lines for /etc/understudy.conf. The working directory must be
/// visible on all hosts.
#[derive(clap::Args)]
#[command(after_help = "Exit status:\n  \
    0  accepted: every byte was right after all failures\n  \
    1  something is wrong; the report says what\n  \
    2  wrong usage\n  \
    3  something could not be tried; the report or a message says why\n\n\
    Example: salloc --nodes=2 --ntasks-per-node=4 understudy accept --html acceptance.html")]
pub struct Arguments {
    #[command(flatten)]
    hosts: HostOptions,
    /// Compiler of the MPI library that jobs use, with options for it.
    #[arg(long, value_name = "COMMAND", default_value = "mpicc")]
    mpicc: String,
    /// Launcher of that MPI library, with options for it, for the run without understudy.
    ///
    /// The default is mpirun or mpiexec beside mpicc, on this host.
    #[arg(long, value_name = "COMMAND")]
    mpirun: Option<String>,
    /// File for the report as a page for a browser.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Preload library, if it is not beside this program.
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// Kill the processes of a job on this host (for the acceptance itself).
    #[arg(long, hide = true, value_name = "DIR")]
    kill_processes: Option<PathBuf>,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        if let Some(events) = &self.kill_processes {
            return node_kill::kill_here(events);
        }
        product_files::library(self.library.as_deref())
            .map_err(|why| Failure::with_status(IMPOSSIBLE, why))?;
        // A page that cannot be written should not be noticed after the jobs.
        self.write_page("")?;
        let placement = Placement::of(&self.hosts)?;
        let directory = shared_directory()?;
        let program = AcceptanceProgram::compile(&self.mpicc, directory.path())?;
        let parts = doctor::Arguments::of(
            placement.host_names(),
            placement.agent.to_string(),
            self.library.clone(),
            program.file.clone().into(),
        )
        .parts(None);
        let (network, mpi) = (acceptance_report::network_of(&parts), program.mpi());
        let faults = std::env::var(FAULT).unwrap_or_default();
        let jobs = match parts.are_well() {
            true => self.jobs(&placement, &program, (&network, &faults)),
            false => Err("the failures above must be corrected first".into()),
        };
        let results = jobs
            .as_ref()
            .map_or_else(|_| JobResults::default(), |jobs| JobResults::of(jobs));
        let subject = acceptance_report::subject(&mpi, &faults);
        let site_lines = acceptance_report::site_lines(results, &network, &subject);
        let rows = jobs.map(|jobs| jobs.into_iter().map(|(_, row)| row).collect());
        let jobs = AcceptanceSection {
            title: format!("Jobs of {}", placement.described()),
            rows: rows.unwrap_or_else(|why| vec![acceptance_report::not_tried("jobs", why)]),
        };
        let sections = vec![acceptance_report::parts_section(&parts), jobs];
        let (verdict, mut conclusion) = acceptance_report::conclusion(&sections, results);
        if verdict == RowVerdict::Wrong {
            let kept = directory.keep();
            conclusion += &format!(
                " Output and messages of the jobs are in {}.",
                kept.display()
            );
        }
        self.publish(&Acceptance {
            subject,
            conclusion,
            verdict,
            sections,
            site_lines,
        })
    }

    /// Runs the jobs of the table; returns a row for each.
    ///
    /// `faults` act in the jobs over the native network. The error is the reason why no job can be
    /// judged.
    fn jobs(
        &self,
        placement: &Placement,
        program: &AcceptanceProgram,
        (network, faults): (&str, &str),
    ) -> Result<Vec<(Trial, AcceptanceRow)>, String> {
        print_message("running without failures and without understudy");
        let reference = program.run_plain(self.mpirun.as_deref(), placement.workers)?;
        let jobs = TrialJobs {
            faults,
            placement,
            program,
            reference: &reference,
            library: self.library.as_deref(),
        };
        let trials = trial_table::trials(doctor::can_mark_pages(), !network.is_empty());
        let count = trials.len();
        let try_one = |(trial, number): (Trial, usize)| {
            print_message(format_args!("job {number} of {count}: {}", trial.name()));
            (trial, jobs.try_one(&trial, number))
        };
        Ok(trials.into_iter().zip(1..).map(try_one).collect())
    }

    fn write_page(&self, page: &str) -> Result<(), Failure> {
        let Some(file) = &self.html else {
            return Ok(());
        };
        std::fs::write(file, page).map_err(|error| {
            let why = format!(
                "--html: {} cannot be written: {error}. Name a file in a directory that can be \
                 written to.",
                file.display()
            );
            Failure::with_status(IMPOSSIBLE, why)
        })
    }

    /// Prints the report and writes the page.
    fn publish(&self, acceptance: &Acceptance) -> Outcome {
        print(acceptance_report::text(acceptance))?;
        self.write_page(&acceptance_page(acceptance))?;
        Ok(match acceptance.verdict {
            RowVerdict::Right | RowVerdict::Noted => ExitCode::SUCCESS,
            RowVerdict::NotTried => ExitCode::from(IMPOSSIBLE),
            RowVerdict::Wrong => ExitCode::from(DEFECT_FOUND),
        })
    }
}

/// Makes a directory below the working directory, which the hosts most likely share.
fn shared_directory() -> Result<tempfile::TempDir, Failure> {
    let working = std::env::current_dir()?;
    let prefix = format!("{}{}-", crate::run::EVENTS_PREFIX, std::process::id());
    let directory = tempfile::Builder::new()
        .prefix(&prefix)
        .tempdir_in(&working);
    directory.map_err(|error| {
        let why = format!(
            "no directory can be made in {}: {error}. Change to a directory that is visible on all \
             hosts and can be written to.",
            working.display()
        );
        Failure::with_status(IMPOSSIBLE, why)
    })
}
