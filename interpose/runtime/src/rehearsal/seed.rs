//! A process that stays what this one was at the end of `MPI_Init`, so that phases can be replayed at any time.
//!
//! It is forked there and sleeps until it is asked, or until this process ends. It has this process's memory of that
//! moment, of which the kernel keeps a copy only where this process has written since. It is nobody's child: the program
//! must not meet it when it waits for its own. It does one thing at a time; who asks for another gives up the one before.
#![allow(unsafe_code)]

mod plant;
mod quiet;
mod work;

use super::child;
use super::finding::Rehearsed;
use crate::copies::Script;
use crate::rehearsal::Runtime;
use bincode::config::standard;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};
use understudy_image::runs::PageRun;
use understudy_wire::line::Line;

/// How much longer an answer may take than the replay.
const MARGIN: Duration = Duration::from_secs(30);
/// Time between two looks for an answer.
const LOOK: Duration = Duration::from_millis(20);

/// What a seed is asked for. The number comes back with the answer.
#[derive(Clone, Copy, PartialEq, Eq, bincode::Encode, bincode::Decode)]
enum Request {
    /// Rehearse the script in the first file, and tell in the second ([`Rehearsed`]) what was found.
    Rehearse(u64),
    /// Replay the script in the first file, and write the pages that it names beside it to the second.
    Make(u64),
    /// What was asked for is not wanted any more.
    Nothing,
}

#[derive(bincode::Encode, bincode::Decode)]
struct Answer {
    number: u64,
    outcome: Result<(), String>,
}

/// The way to the seed, and the number of the last request.
pub(super) struct Seed {
    line: Line,
    last: Cell<u64>,
}

/// This process stands at the end of `MPI_Init`.
pub fn plant(rt: &Runtime) {
    let forked = plant::fork(rt);
    match forked {
        Ok(line) => rt.seed.set(Some(Rc::new(Seed {
            line,
            last: Cell::new(0),
        }))),
        Err(error) => {
            log::warn!("no process for replays, so copies of static data are kept: {error}")
        }
    }
}

/// Whether there is one.
pub fn lives(rt: &Runtime) -> bool {
    let mut seed = rt.seed.borrow_mut();
    *seed = seed.take_if(|seed| !quiet::has_ended(&seed.line));
    seed.is_some()
}

fn gone<T>(rt: &Runtime) -> Result<T, String> {
    rt.seed.set(None);
    Err("the process for replays has ended".into())
}

/// Something that the seed does. If this is dropped, it does it no more.
pub struct Asked {
    seed: Weak<Seed>,
    number: u64,
    result: File,
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(seed) = self
            .seed
            .upgrade()
            .filter(|seed| seed.last.get() == self.number)
        {
            // One that has ended is found when it is asked again.
            let _ = seed.line.send(&Request::Nothing);
        }
    }
}

impl Asked {
    /// Whether it is done; why it has come to nothing.
    fn is_done(&self, rt: &Runtime, limit: Duration) -> Result<bool, String> {
        loop {
            let heard = rt
                .seed
                .borrow()
                .as_ref()
                .map(|seed| seed.line.receive::<Answer>(limit));
            match heard {
                Some(Ok(None)) => return Ok(false),
                Some(Ok(Some(answer))) if answer.number == self.number => {
                    return answer.outcome.map(|()| true);
                }
                // To a question that is not asked any more.
                Some(Ok(Some(_))) => {}
                Some(Err(_)) | None => return gone(rt),
            }
        }
    }

    /// What a rehearsal has found, once it has.
    pub fn rehearsed(&mut self, rt: &Runtime) -> Option<Result<Rehearsed, String>> {
        match self.is_done(rt, Duration::ZERO) {
            Ok(false) => None,
            Ok(true) => Some(read(&mut self.result).map_err(|error| error.to_string())),
            Err(why) => Some(Err(why)),
        }
    }

    /// The file with the pages of a replay.
    pub fn made(self, rt: &Runtime, script: &Script) -> Result<File, String> {
        let (began, limit) = (Instant::now(), child::limit(script) + MARGIN);
        while !self.is_done(rt, LOOK)? {
            if began.elapsed() > limit {
                return Err("the process for replays does not answer".into());
            }
        }
        self.result.try_clone().map_err(|error| error.to_string())
    }
}

/// Has a phase rehearsed, whose script this is.
pub fn rehearse(rt: &Runtime, script: &[u8]) -> Result<Asked, String> {
    ask(rt, Request::Rehearse, script)
}

/// Has these pages made, one after the other.
pub fn make(rt: &Runtime, script: &Script, pages: &[PageRun]) -> Result<Asked, String> {
    let bytes =
        bincode::encode_to_vec((script, pages), standard()).map_err(|error| error.to_string())?;
    ask(rt, Request::Make, &bytes)
}

fn ask(rt: &Runtime, request: fn(u64) -> Request, bytes: &[u8]) -> Result<Asked, String> {
    let tell = |error: io::Error| error.to_string();
    let (mut question, result) = (
        child::memory_file().map_err(tell)?,
        child::memory_file().map_err(tell)?,
    );
    question.write_all(bytes).map_err(tell)?;
    let Some(seed) = rt.seed.borrow().clone() else {
        return gone(rt);
    };
    let number = seed.last.get() + 1;
    seed.last.set(number);
    let files = [question.as_fd(), result.as_fd()];
    if seed.line.send_with(&request(number), &files).is_err() {
        return gone(rt);
    }
    let seed = Rc::downgrade(&seed);
    Ok(Asked {
        seed,
        number,
        result,
    })
}

/// What a file holds from its beginning.
fn read<T: bincode::Decode<()>>(file: &mut File) -> io::Result<T> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    let (what, _) = bincode::decode_from_slice(&bytes, standard()).map_err(io::Error::other)?;
    Ok(what)
}
