//! A manager that follows another one, which has died: guardians tell what there is, and nothing is done before all have.

use super::generations::{SEGMENTS, SESSIONS};
use super::{Left, Node};
use crate::launch::process::{Caller, Process};
use crate::launch::servers::remove_generations;
use crate::launch::talk::Report;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use understudy_numbers::Guardian;
use understudy_protocol::Known;
use understudy_wire::line::{Call, FromGuardian, Has, Line, Socket};

/// How often guardians are looked for that have not come.
const LOOK: Duration = Duration::from_millis(100);

/// What a guardian has said: its rank, and what has come with the message.
type Heard = (Guardian, FromGuardian, Vec<OwnedFd>);

/// What is known until all guardians have come.
#[derive(Default)]
pub(super) struct Again {
    /// The leader has wanted something.
    is_led: bool,
    /// How many guardians there were, if there has been another manager.
    size: Option<u32>,
    absent: BTreeSet<Guardian>,
    looked: Option<Instant>,
    /// What is to be seen to afterwards.
    held: Vec<Heard>,
    /// The file of the MPI library.
    library: Option<PathBuf>,
}

impl Again {
    /// Whether the leader knows enough to lead: at once, if there has been no other manager.
    pub fn is_led(&self) -> bool {
        self.is_led || self.size.is_none()
    }

    pub fn lead(&mut self) {
        self.is_led = true;
    }

    pub fn note(&mut self, is_again: bool, size: u32) {
        if is_again {
            self.size = Some(size);
        }
    }

    pub fn hold(&mut self, rank: Guardian, message: FromGuardian, files: Vec<OwnedFd>) {
        self.held.push((rank, message, files));
    }

    /// What has been held so long, if it is time for that.
    pub fn take_held(&mut self) -> Vec<Heard> {
        match self.is_led {
            true => std::mem::take(&mut self.held),
            false => Vec::new(),
        }
    }

    pub fn take_library(&mut self) -> Option<PathBuf> {
        self.library.take()
    }

    /// How long the node may wait.
    pub fn limit(&self) -> Option<Duration> {
        match (self.is_led, self.size) {
            (true, _) => (!self.held.is_empty()).then_some(Duration::ZERO),
            (false, size) => size.map(|_| LOOK),
        }
    }
}

impl Node {
    /// A process that was started for another manager.
    pub(super) fn learn(&mut self, rank: Guardian, has: Has, files: Vec<OwnedFd>) {
        let number = has.number;
        let mut files = files.into_iter();
        let mut known = Known {
            keeps: has.keeps,
            heir_of: has.heir_of,
            ..Known::default()
        };
        self.homes.insert(number, rank);
        for call in has.calls {
            self.again.library = Some(PathBuf::from(&call.library));
            let of_call = files.by_ref().take(Call::DESCRIPTORS).collect();
            let Some(caller) = Caller::new(call, of_call) else {
                continue;
            };
            known.is_heard = true;
            caller.tell_again();
            let Ok(page) = caller.look() else { continue };
            if page.has_played() || page.has_ended() {
                page.tell(&mut known);
                self.is_protected |= known.has_part || known.is_protected;
                if let Ok(process) = Process::new(caller, self.poller.registry()) {
                    self.processes.insert(number, process);
                }
            } else {
                // It has not been in any generation, so it may as well call now.
                let (call, files) = caller.take_apart();
                self.again
                    .hold(rank, FromGuardian::Called { number, call }, files);
            }
        }
        if let Some(worker) = has.keeps {
            let (files, status) = (files.collect(), libc::SIGKILL);
            self.files.insert(
                number,
                Left {
                    worker,
                    files,
                    status,
                },
            );
        }
        for ended in has.ends {
            self.again
                .hold(rank, FromGuardian::Ended(ended), Vec::new());
        }
        self.reports.push(Report::Knows {
            rank,
            number,
            known,
        });
    }

    /// Guardians that are needed to go on, and do not live any more.
    pub(super) fn look_for_guardians(&mut self) {
        let Some(size) = self.again.size.filter(|_| !self.again.is_led) else {
            return;
        };
        if self.again.looked.is_some_and(|last| last.elapsed() < LOOK) {
            return;
        }
        self.again.looked = Some(Instant::now());
        for rank in (0..size)
            .map(Guardian)
            .filter(|rank| !self.guardians.contains_key(rank))
        {
            // Without a socket it is still to come.
            let called = Line::call(&self.directory, Socket::Guardian(rank));
            let has_gone = called.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
            if has_gone && self.again.absent.insert(rank) {
                self.reports.push(Report::Gone { rank });
            }
        }
    }

    /// Removes what generations of another manager have left.
    pub(super) fn forget_others(&mut self) {
        if self.again.size.take().is_some() {
            self.forget_generations();
        }
    }

    /// Removes what generations have left, none of which has a process any more.
    pub(super) fn forget_generations(&self) {
        remove_generations(
            &self.directory.join(SESSIONS),
            &self.directory.join(SEGMENTS),
        );
    }
}
