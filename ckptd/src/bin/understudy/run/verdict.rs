//! Result of a job, from its event files and the launcher's exit status.
//!
//! The launcher's exit status alone is not sufficient: it is 0 after a rank was killed, and may be
//! 0 after a crash.

use understudy_catalogue::exit_status;
use understudy_formats::events::{EndReason, Worker};
use understudy_report::{JobState, Protection};

/// Result of a job.
#[derive(Debug, PartialEq, Eq)]
pub struct Verdict {
    pub status: u8,
    /// Message for the user; `None` if unnecessary, or already printed by the job.
    pub remark: Option<String>,
}

/// Derives the result from the recorded state of the job and the launcher's status.
///
/// `are_events_incomplete` is true if the ranks could not write all their event files, so that an
/// absent event proves nothing.
pub fn verdict(state: Option<&JobState>, launcher: u8, are_events_incomplete: bool) -> Verdict {
    let with_remark = |status, remark: String| Verdict {
        status,
        remark: Some(remark),
    };
    let without_remark = |status| Verdict {
        status,
        remark: None,
    };
    let Some(state) = state else {
        return match launcher {
            status if are_events_incomplete => with_remark(
                status,
                "the ranks could not write their event files, so there is no record of the job; \
                 its messages tell whether it was protected. Make room there, or name another \
                 directory with --events"
                    .into(),
            ),
            0 => with_remark(
                0,
                "no rank has recorded an event, so the program was not protected: it has not \
                 called MPI_Init, is linked with another MPI, or its event files are on other \
                 nodes"
                    .into(),
            ),
            status => without_remark(status),
        };
    };
    let ends: Vec<_> = (0..state.workers)
        .map(|worker| {
            (
                worker,
                state
                    .process_of(Worker(worker))
                    .and_then(|(_, process)| process.end),
            )
        })
        .collect();
    let aborted = state
        .processes
        .values()
        .find_map(|process| match process.end {
            Some(EndReason::Aborted(code)) => Some(code),
            _ => None,
        });
    if let Some(code) = aborted {
        return without_remark(if launcher == 0 {
            as_status(code)
        } else {
            launcher
        });
    }
    let missing: Vec<String> = ends
        .iter()
        .filter(|(_, end)| end.is_none())
        .map(|(worker, _)| worker.to_string())
        .collect();
    if launcher != 0 || missing.is_empty() {
        let exit_status_of_worker = ends.iter().find_map(|(_, end)| match end {
            Some(EndReason::Exited(status)) => Some(*status),
            _ => None,
        });
        return without_remark(match (launcher, exit_status_of_worker) {
            (0, Some(status)) => (status & 0xff) as u8,
            _ => launcher,
        });
    }
    if are_events_incomplete {
        return with_remark(
            launcher,
            "there was no room for event files, so the record of the job, which has ended well, is \
             incomplete"
                .into(),
        );
    }
    let why = match &state.protection {
        Protection::Refused(_) => "the job was not protected at that time",
        _ => "no process took over",
    };
    with_remark(
        exit_status::RECOVERY_FAILED as u8,
        format!(
            "{} {} did not finish, and {why}, although the launcher exited with status 0; the \
             results of the job are incomplete",
            if missing.len() == 1 {
                "worker"
            } else {
                "workers"
            },
            missing.join(", ")
        ),
    )
}

/// Returns the exit status for an error code of `MPI_Abort`; never 0.
fn as_status(code: i32) -> u8 {
    match (code & 0xff) as u8 {
        0 => 1,
        status => status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use understudy_formats::events::{Epoch, EventWriter, Kind, ProcessNumber, Role};
    use understudy_report::Live;

    /// A worker's event file contains only the start, and the launcher exits with status 0.
    ///
    /// The worker counts as unfinished, unless there was no room for events: the status then stays
    /// 0, and a remark names the reason.
    #[test]
    fn a_full_event_directory_does_not_make_a_job_fail() {
        let directory = tempfile::tempdir().expect("there is room");
        let writer = EventWriter::create(directory.path(), ProcessNumber(0));
        let start = Kind::Start {
            pid: 1,
            world_rank: ProcessNumber(0),
            role: Role::Worker(Worker(0)),
            workers: 1,
            spares: 0,
            host: String::new(),
            program: String::new(),
            command: Vec::new(),
            version: String::new(),
            job: String::new(),
        };
        writer.emit(Epoch(0), start);
        let mut live = Live::new(directory.path());
        let state = live.poll().expect("the directory is there");
        let lost = verdict(state, 0, false);
        let why = lost.remark.unwrap_or_default();
        assert_eq!(i32::from(lost.status), exit_status::RECOVERY_FAILED);
        // ckptd may have been the launcher.
        assert!(
            why.contains("the launcher exited") && !why.contains("mpirun"),
            "{why}"
        );
        let full = verdict(state, 0, true);
        assert!(
            full.status == 0
                && full
                    .remark
                    .is_some_and(|remark| remark.contains("no room for event files"))
        );
    }

    #[test]
    fn event_files_that_stayed_empty_are_no_sign_of_a_job_without_protection() {
        let remark = |are_events_incomplete| {
            verdict(None, 0, are_events_incomplete)
                .remark
                .unwrap_or_default()
        };
        assert!(remark(false).contains("was not protected"));
        assert!(
            remark(true).contains("could not write their event files")
                && !remark(true).contains("not protected")
        );
    }
}
