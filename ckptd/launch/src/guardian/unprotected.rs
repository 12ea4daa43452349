//! Programs that run without understudy.

use super::program::{Program, preloaded_besides};
use super::seat::Seat;
use crate::Error;
use crate::refused_start::REFUSED;
use crate::say::say;
use rustix::process::set_parent_process_death_signal;
use std::os::unix::process::CommandExt;
use std::time::Duration;
use understudy_settings::refusal;

/// Runs the program in place of this process, or stops the job, because protection fails.
///
/// All processes of the launcher are ranks then, as without understudy.
pub fn go_without(program: &Program, seat: &Seat, spares: u32, why: &Error) -> Result<i32, Error> {
    let stop = refusal::stops(!seat.is_ours(), !seat.is_on_one_node());
    if seat.local_rank == 0 {
        let outcome = refusal::outcome(stop);
        let ranks = match (stop, spares) {
            (None, 1..) => format!(
                ", with the {spares} spare(s) as further ranks: {} in all",
                seat.size
            ),
            _ => String::new(),
        };
        say(format_args!("{why}; {outcome}{ranks}"));
    } else if stop.is_some() {
        // A rank that exits with an error ends the job, so that the rank that prints needs time.
        std::thread::sleep(LAST_WORD);
    }
    if stop.is_some() {
        return Ok(REFUSED);
    }
    set_parent_process_death_signal(None).map_err(|errno| Error::system("prctl")(errno.into()))?;
    let mut command = program.command();
    command.env("LD_PRELOAD", preloaded_besides());
    Err(Error::system(program.file.display().to_string())(
        command.exec(),
    ))
}

/// Time for the first process of a node to print the reason.
const LAST_WORD: Duration = Duration::from_secs(1);
