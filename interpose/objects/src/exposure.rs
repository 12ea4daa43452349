//! General active target synchronization of windows (MPI 4.1, 12.5.2), by locks and messages.
//!
//! ```text
//!   origin                                                      target
//!     start: waits for Exposed of all targets ◄──── Exposed ───── post
//!            locks them (MPI_MODE_NOCHECK)
//!     put, get, accumulate
//!     complete: unlocks them ─────────────────────── Done ──────► wait: for Done of all origins
//! ```
//!
//! The library's own active target epochs can be neither abandoned nor flushed, so no cut could be
//! taken while one is open. Passive target epochs (locks) can be flushed. The messages use the
//! window's communicator and count as messages of the program, so a cut receives all of them.
//! Received messages that no `start` or `wait` has consumed yet are part of [`Epochs`].
#![allow(unsafe_code)]

use crate::Runtime;
use crate::arch;
use crate::generated::real;
use crate::handles::{VirtComm, VirtWin, real_comm};
use crate::objects::window::{self, Epochs};
use crate::objects::{comm, objects};
use crate::requests::{self, EMPTY_STATUS, RequestKind, RequestState};
use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{Ordering, fence};
use understudy_mpi::bytes::byte;
use understudy_mpi::real_types::{ANY_SOURCE, ANY_TAG, RealRequest, Status};
use understudy_mpi::{self as mpi, check};

/// Message between origin and target of an epoch.
///
/// The message has no data; its tag is this value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMessage {
    /// The target has posted.
    Exposed = 1,
    /// The origin has completed.
    Done = 2,
}

impl SyncMessage {
    fn of_tag(tag: c_int) -> SyncMessage {
        if tag == SyncMessage::Exposed as c_int {
            SyncMessage::Exposed
        } else {
            SyncMessage::Done
        }
    }
}

/// Returns the communicator for messages of a window, and this process's rank in it.
fn window_channel(rt: &Runtime, win: VirtWin) -> Option<(VirtComm, c_int)> {
    let comm = window::comm_of(rt, win)?;
    Some((comm, comm::rank_and_size(rt, comm)?.0))
}

fn record_message(rt: &Runtime, win: VirtWin, from: c_int, message: SyncMessage) {
    if let Some(mut window) = window::get_mut(rt, win) {
        window.epochs.record(from, message);
    }
}

/// Sends `message` to these members.
///
/// # Errors
/// Fails if a real procedure fails.
pub fn send(rt: &Runtime, win: VirtWin, members: &[i32], message: SyncMessage) -> mpi::Result<()> {
    let Some((comm, own)) = window_channel(rt, win) else {
        return Ok(());
    };
    // The fence makes the program's stores visible before the message is sent.
    fence(Ordering::SeqCst);
    for &member in members {
        if member == own {
            record_message(rt, win, own, message);
            continue;
        }
        let (mut request, mut status, mut flag) = (RealRequest(ptr::null_mut()), EMPTY_STATUS, 0);
        // SAFETY: a message without data, so the null buffer is not read.
        unsafe {
            let (tag, to) = (message as c_int, real_comm(rt, comm));
            check(real::PMPI_Isend(
                ptr::null(),
                0,
                byte(),
                member,
                tag,
                to,
                &mut request,
            ))?;
        }
        requests::table_mut(rt).count_sent(comm::worker_of(rt, comm, member));
        // SAFETY: an active request of the runtime, and variables of this frame.
        check(unsafe { real::PMPI_Test(&mut request, &mut flag, &mut status) })?;
        if flag == 0 {
            let mut sent =
                requests::add(rt, comm, RequestKind::Send, RequestState::Active, request);
            requests::free(rt, &mut sent);
        }
    }
    Ok(())
}

/// Receives a message if one has arrived; returns true if so.
///
/// # Errors
/// Fails if a real procedure fails.
pub fn receive_arrived(rt: &Runtime, win: VirtWin) -> mpi::Result<bool> {
    let Some((comm, _)) = window_channel(rt, win) else {
        return Ok(false);
    };
    let (mut flag, mut status) = (0, EMPTY_STATUS);
    // SAFETY: a query that writes only to variables of this frame.
    check(unsafe {
        real::PMPI_Iprobe(
            ANY_SOURCE,
            ANY_TAG,
            real_comm(rt, comm),
            &mut flag,
            &mut status,
        )
    })?;
    if flag != 0 {
        receive_next(rt, win)?;
    }
    Ok(flag != 0)
}

/// Blocks until the next message has been received.
///
/// # Errors
/// Fails if a real procedure fails.
pub fn receive_next(rt: &Runtime, win: VirtWin) -> mpi::Result<()> {
    let Some((comm, _)) = window_channel(rt, win) else {
        return Ok(());
    };
    let mut status: Status = EMPTY_STATUS;
    let real = real_comm(rt, comm);
    arch::mark_blocking_wait();
    // SAFETY: a message without data; nothing else is sent on this communicator.
    check(unsafe {
        real::PMPI_Recv(
            ptr::null_mut(),
            0,
            byte(),
            ANY_SOURCE,
            ANY_TAG,
            real,
            &mut status,
        )
    })?;
    requests::count_received(rt, comm, &status);
    record_message(rt, win, status.source, SyncMessage::of_tag(status.tag));
    Ok(())
}

/// Returns true, and discards the messages, if each of `members` has sent `message`.
///
/// The function returns true again only after each member has sent `message` once more.
pub fn consume_messages(rt: &Runtime, win: VirtWin, members: &[i32], message: SyncMessage) -> bool {
    let Some(mut window) = window::get_mut(rt, win) else {
        return true;
    };
    let all_received = window.epochs.consume(members, message);
    // The fence keeps later loads of the program behind the receipt of the messages.
    fence(Ordering::SeqCst);
    all_received
}

/// Receives all messages that have arrived, on all windows without spawned processes.
///
/// # Errors
/// Fails if a real procedure fails.
pub fn receive_all_arrived(rt: &Runtime) -> mpi::Result<()> {
    let windows: Vec<VirtWin> = {
        let all = objects(rt);
        all.windows
            .iter()
            .map(|(index, _)| window::handle(index))
            .collect()
    };
    for win in windows
        .into_iter()
        .filter(|&win| !window::has_spawned(rt, win))
    {
        while receive_arrived(rt, win)? {}
    }
    Ok(())
}

impl Epochs {
    fn record(&mut self, from: i32, message: SyncMessage) {
        match message {
            SyncMessage::Exposed => self.exposed.insert(from),
            SyncMessage::Done => self.done.insert(from),
        };
    }

    fn consume(&mut self, members: &[i32], message: SyncMessage) -> bool {
        let received = match message {
            SyncMessage::Exposed => &mut self.exposed,
            SyncMessage::Done => &mut self.done,
        };
        let all = members.iter().all(|member| received.contains(member));
        if all {
            members.iter().for_each(|member| {
                received.remove(member);
            });
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_consumed_once_and_only_from_all_members() {
        let mut epochs = Epochs::default();
        epochs.record(3, SyncMessage::Exposed);
        epochs.record(1, SyncMessage::Done);
        assert!(!epochs.consume(&[1, 3], SyncMessage::Exposed));
        epochs.record(1, SyncMessage::Exposed);
        assert!(
            epochs.consume(&[1, 3], SyncMessage::Exposed)
                && !epochs.consume(&[3], SyncMessage::Exposed)
        );
        assert!(epochs.consume(&[1], SyncMessage::Done) && epochs.consume(&[], SyncMessage::Done));
        assert_eq!(epochs, Epochs::default());
    }
}
