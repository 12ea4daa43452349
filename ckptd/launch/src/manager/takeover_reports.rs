//! Reports of guardians to a manager that follows another one.

use super::generations::{SEGMENTS, SESSIONS};
use super::node::{Left, Node};
use super::process::{Caller, Process};
use super::servers::remove_generations;
use super::takeover::LOOK;
use crate::messages::Report;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Instant;
use understudy_numbers::Guardian;
use understudy_protocol::Known;
use understudy_wire::line::{Call, FromGuardian, Has, Line, Socket};

impl Node {
    /// Registers a process that was started for an earlier manager.
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
            self.takeover.library = Some(PathBuf::from(&call.library));
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
                // The process was not in a generation, so that it can be handled like a new
                // registration.
                let (call, files) = caller.take_apart();
                self.takeover
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
            self.takeover
                .hold(rank, FromGuardian::Ended(ended), Vec::new());
        }
        self.reports.push(Report::Knows {
            rank,
            number,
            known,
        });
    }

    /// Reports guardians that are missing for the takeover and have died.
    pub(super) fn look_for_guardians(&mut self) {
        let Some(size) = self.takeover.size.filter(|_| !self.takeover.is_led) else {
            return;
        };
        if self
            .takeover
            .looked
            .is_some_and(|last| last.elapsed() < LOOK)
        {
            return;
        }
        self.takeover.looked = Some(Instant::now());
        for rank in (0..size)
            .map(Guardian)
            .filter(|rank| !self.guardians.contains_key(rank))
        {
            // A guardian without a socket has not started yet.
            let called = Line::call(&self.directory, Socket::Guardian(rank));
            let has_gone = called.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
            if has_gone && self.takeover.absent.insert(rank) {
                self.reports.push(Report::Gone { rank });
            }
        }
    }

    /// Removes the leftovers of an earlier manager's generations.
    pub(super) fn forget_others(&mut self) {
        if self.takeover.size.take().is_some() {
            self.forget_generations();
        }
    }

    /// Removes the leftovers of generations that have no process any more.
    pub(super) fn forget_generations(&self) {
        remove_generations(
            &self.directory.join(SESSIONS),
            &self.directory.join(SEGMENTS),
        );
    }
}
