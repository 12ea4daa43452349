//! Copies epochs that are held in memory to disk, one after the other, in a thread of its own.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use understudy_formats::epochs::flush;

/// As many may wait, or have an outcome that nobody has asked for yet.
const MOST: usize = 4096;

#[derive(Debug)]
struct Copy {
    id: u64,
    from: PathBuf,
    to: PathBuf,
    given_up: Arc<AtomicBool>,
}

fn errno(error: &io::Error) -> Outcome {
    let otherwise = match error.kind() {
        io::ErrorKind::Interrupted => libc::EINTR,
        _ => libc::EIO,
    };
    error.raw_os_error().unwrap_or(otherwise)
}

/// What became of a copy: 0, or an error number.
type Outcome = i32;

#[derive(Debug)]
struct Entry {
    given_up: Arc<AtomicBool>,
    outcome: Option<Outcome>,
}

/// The thread, and what it was asked for.
#[derive(Debug)]
pub(super) struct Flusher {
    copies: Sender<Copy>,
    outcomes: Receiver<(u64, Outcome)>,
    asked: BTreeMap<u64, Entry>,
    next: u64,
    copied: u64,
}

impl Flusher {
    /// Starts it.
    pub(super) fn start() -> Self {
        let (copies, todo) = channel::<Copy>();
        let (done, outcomes) = channel();
        std::thread::spawn(move || {
            for Copy {
                id,
                from,
                to,
                given_up,
            } in todo
            {
                let copied = flush::copy(&from, &to, &given_up);
                if let Err(error) = &copied {
                    log::info!("{}: {error}", to.display());
                }
                let outcome = copied.map_or_else(|error| errno(&error), |_| 0);
                if done.send((id, outcome)).is_err() {
                    return;
                }
            }
        });
        Self {
            copies,
            outcomes,
            asked: BTreeMap::new(),
            next: 1,
            copied: 0,
        }
    }

    /// Has a file that is held copied to a directory; the number of that request. `None` if it is not held, or too much is
    /// asked for. What nobody has asked about for long makes room.
    pub(super) fn copy(&mut self, from: &Path, to: &Path) -> Option<u64> {
        self.settle();
        let is_plain = |path: &Path| {
            path.is_absolute()
                && path
                    .components()
                    .all(|part| part != std::path::Component::ParentDir)
        };
        if self.asked.len() >= MOST {
            self.asked.retain(|_, entry| entry.outcome.is_none());
        }
        if !from.starts_with(flush::root())
            || !is_plain(from)
            || !is_plain(to)
            || self.asked.len() >= MOST
        {
            return None;
        }
        let (id, given_up) = (self.next, Arc::new(AtomicBool::new(false)));
        self.next += 1;
        let copy = Copy {
            id,
            from: from.to_owned(),
            to: to.to_owned(),
            given_up: Arc::clone(&given_up),
        };
        self.copies.send(copy).ok()?;
        self.asked.insert(
            id,
            Entry {
                given_up,
                outcome: None,
            },
        );
        Some(id)
    }

    /// What became of a request, once: nothing yet, or its outcome. `None` if there is none such.
    pub(super) fn outcome(&mut self, id: u64) -> Option<Option<Outcome>> {
        self.settle();
        let outcome = self.asked.get(&id)?.outcome;
        if outcome.is_some() {
            self.asked.remove(&id);
        }
        Some(outcome)
    }

    /// Nobody wants it any more; it has an outcome all the same.
    pub(super) fn give_up(&mut self, id: u64) {
        if let Some(entry) = self.asked.get(&id) {
            entry.given_up.store(true, Ordering::Relaxed);
        }
    }

    /// How many files were copied.
    pub(super) fn copied(&mut self) -> u64 {
        self.settle();
        self.copied
    }

    fn settle(&mut self) {
        while let Ok((id, outcome)) = self.outcomes.try_recv() {
            self.copied += u64::from(outcome == 0);
            if let Some(entry) = self.asked.get_mut(&id) {
                entry.outcome = Some(outcome);
            }
        }
    }
}
