//! The directory of checkpoints that the job owns (`understudy_formats::epochs::claim`).
//!
//! A thread rewrites the owner file at intervals, because a file server may block it for long.

use super::node::NodeState;
use super::node_queue::{NodeMessage, QueueSender};
use crate::messages::Report;
use crate::print_message::print_message;
use crate::spawn_thread::spawn_thread;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use understudy_catalogue::{exit_status, message};
use understudy_formats::epochs::claim::owner_of;
use understudy_formats::epochs::heartbeat::{BEAT_INTERVAL, Heartbeat, PATIENCE};
use understudy_wire::line::is_first_to_warn;

/// Time for which the owner file may be missing.
///
/// The leader may have ended the job just now.
const END_TIME: Duration = Duration::from_secs(1);

impl NodeState {
    /// Rewrites this owner file at intervals from now on, if no thread does so already.
    pub(super) fn rewrite_owner_file(&mut self, file: PathBuf) {
        if self.owner_file.as_ref() == Some(&file) {
            return;
        }
        self.owner_file = Some(file.clone());
        let sender = self.queue.sender();
        if let Err(error) = spawn_thread(move || rewrite(&file, &sender)) {
            self.give_up(error.to_string());
        }
    }

    /// Ends the job, unless it has removed the owner file at its end.
    pub(super) fn lose_directory(&mut self, file: &Path) {
        if self.owner_file.as_deref() != Some(file) {
            return;
        }
        self.owner_file = None;
        if self.is_ending || self.is_over {
            return;
        }
        // A rank may have noticed as well.
        if is_first_to_warn(&self.directory, "directory-lost") {
            let directory = file.parent().unwrap_or(file);
            let owner = owner_of(directory).unwrap_or_default();
            print_message(message::directory_lost(owner, directory.display()));
        }
        self.reports.push(Report::Abort(exit_status::REFUSED));
    }
}

/// Rewrites an owner file until it has been removed.
fn rewrite(file: &Path, sender: &QueueSender) {
    let mut heartbeat = Heartbeat::new(file);
    let (mut is_missing, mut is_reported) = (false, false);
    let mut rewritten = Instant::now();
    loop {
        let interval = match heartbeat.beat() {
            Ok(()) => {
                let silence = rewritten.elapsed();
                (rewritten, is_missing) = (Instant::now(), false);
                if std::mem::take(&mut is_reported) || silence > PATIENCE {
                    let seconds = silence.as_secs();
                    print_message(message::owner_file_renewed(file.display(), seconds));
                }
                BEAT_INTERVAL
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let was_missing = std::mem::replace(&mut is_missing, true);
                if was_missing || rewritten.elapsed() > PATIENCE {
                    return sender.put(NodeMessage::DirectoryLost(file.to_owned()));
                }
                END_TIME
            }
            Err(error) => {
                if !std::mem::replace(&mut is_reported, true) {
                    print_message(message::owner_file_not_renewed(file.display(), error));
                }
                BEAT_INTERVAL
            }
        };
        std::thread::sleep(interval);
    }
}
