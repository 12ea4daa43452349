//! The death of a guardian's manager: another manager takes its place, or the job ends.

use super::guarded_process::GuardedProcess;
use super::guardian_process::GuardianProcess;
use super::guardian_sockets::register;
use super::launcher_position::ManagerReplacement;
use crate::Error;
use crate::print_message::print_message;
use understudy_catalogue::exit_status;

/// Limit of managers that die in succession before a process resumes under one manager.
const MAX_FRUITLESS_MANAGERS: u32 = 10;

impl GuardianProcess {
    /// Finds or starts another manager after the death of the current manager.
    ///
    /// Returns an exit status if the job is over, or if too many managers have died.
    pub(super) fn find_manager(&mut self) -> Result<Option<i32>, Error> {
        self.manager_watch.forget();
        // Spawned processes would wait for ever for the servers of the dead manager.
        if self.children.are_any() {
            return Ok(Some(self.end_without_manager()));
        }
        loop {
            self.fruitless_managers += 1;
            if self.fruitless_managers == MAX_FRUITLESS_MANAGERS {
                break;
            }
            // Collects the exit statuses of dead managers.
            self.managers
                .retain_mut(|manager| matches!(manager.try_wait(), Ok(None)));
            let replacement = match &self.succession {
                _ if self.is_last => ManagerReplacement::Impossible,
                None => ManagerReplacement::OnlyNode,
                Some(succession) => ManagerReplacement::Node(succession),
            };
            let reconnected = match self.position.reconnect(replacement) {
                Err(Error::NoManager) => return Ok(Some(self.end_without_manager())),
                reconnected => reconnected?,
            };
            let Some((line, manager)) = reconnected else {
                // The manager removes the job's directory before it makes guardians exit. A job
                // that ends before this guardian has started a process has failed.
                let status = self
                    .processes()
                    .iter()
                    .map(GuardedProcess::status)
                    .find(|&status| status != 0);
                let otherwise = match self.has_begun {
                    true => 0,
                    false => exit_status::RECOVERY_FAILED,
                };
                return Ok(Some(status.unwrap_or(otherwise)));
            };
            self.managers.extend(manager);
            if let Ok(line) = line {
                let pid = line.peer().map(|pid| pid.as_raw_nonzero().get() as u32);
                if pid.is_ok_and(|pid| self.manager_pid == Some(pid)) {
                    // The earlier manager requests another report.
                    self.fruitless_managers -= 1;
                }
                self.manager = register(&self.poller, line)?;
                self.report_state(true);
                self.hangs.repeat_reports();
                return Ok(None);
            }
        }
        self.kill_all();
        if self.position.end_job()? {
            let error = Error::Managers(MAX_FRUITLESS_MANAGERS);
            print_message(error);
        }
        Ok(Some(exit_status::RECOVERY_FAILED))
    }

    /// Kills all processes, because the manager cannot be replaced; returns the exit status.
    fn end_without_manager(&self) -> i32 {
        self.kill_all();
        self.position.report_lost_manager()
    }
}
