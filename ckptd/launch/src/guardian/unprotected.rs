//! Programs that run without understudy.

use super::launcher_position::LauncherPosition;
use super::program::{Program, preloaded_besides};
use crate::Error;
use crate::print_message::print_message;
use rustix::process::set_parent_process_death_signal;
use std::os::unix::process::CommandExt;
use std::time::Duration;
use understudy_catalogue::exit_status;
use understudy_settings::refusal;

/// Runs the program in place of this process, or stops the job, because protection fails.
///
/// All processes of the launcher are ranks then, as without understudy.
pub fn run_unprotected(
    program: &Program,
    position: &LauncherPosition,
    spares: u32,
    why: &Error,
) -> Result<i32, Error> {
    let stop = refusal::stops(!position.is_of_starter(), !position.is_on_one_node());
    if position.local_rank == 0 {
        let message = refusal::message(why, stop);
        let ranks = match (stop, spares) {
            (None, 1..) => format!(
                ", with the {spares} spare(s) as further ranks: {} in all",
                position.size
            ),
            _ => String::new(),
        };
        print_message(message + &ranks);
    } else if stop.is_some() {
        // A rank that exits with an error makes the launcher kill the other ranks, so the message
        // must be printed before any rank exits.
        std::thread::sleep(MESSAGE_DELAY);
    }
    if stop.is_some() {
        return Ok(exit_status::REFUSED);
    }
    set_parent_process_death_signal(None).map_err(|errno| Error::system("prctl")(errno.into()))?;
    let mut command = program.command();
    command.env("LD_PRELOAD", preloaded_besides());
    let what = format!("the execution of {}", program.file.display());
    Err(Error::system(what)(command.exec()))
}

/// Time for the first process of a node to print the reason.
const MESSAGE_DELAY: Duration = Duration::from_secs(1);
