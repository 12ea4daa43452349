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
use crate::cell::Main;
use crate::copies::Script;
use crate::image::runs::PageRun;
use bincode::config::standard;
use ckptd::line::Line;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

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
struct Seed {
    line: Line,
    last: u64,
}

static SEED: Main<Option<Seed>> = Main::new(None);

/// This process stands at the end of `MPI_Init`.
pub fn plant() {
    match plant::fork() {
        Ok(line) => SEED.set(Some(Seed { line, last: 0 })),
        Err(error) => log::warn!("no process for replays, so copies of static data are kept: {error}"),
    }
}

/// Whether there is one.
pub fn lives() -> bool {
    let mut seed = SEED.borrow_mut();
    *seed = seed.take_if(|seed| !quiet::has_ended(&seed.line));
    seed.is_some()
}

fn gone<T>() -> Result<T, String> {
    SEED.set(None);
    Err("the process for replays has ended".into())
}

/// Something that the seed does. If this is dropped, it does it no more.
pub struct Asked {
    number: u64,
    result: File,
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(seed) = SEED.borrow().as_ref().filter(|seed| seed.last == self.number) {
            // One that has ended is found when it is asked again.
            let _ = seed.line.send(&Request::Nothing);
        }
    }
}

impl Asked {
    /// Whether it is done; why it has come to nothing.
    fn is_done(&self, limit: Duration) -> Result<bool, String> {
        loop {
            let heard = SEED.borrow().as_ref().map(|seed| seed.line.receive::<Answer>(limit));
            match heard {
                Some(Ok(None)) => return Ok(false),
                Some(Ok(Some(answer))) if answer.number == self.number => return answer.outcome.map(|()| true),
                // To a question that is not asked any more.
                Some(Ok(Some(_))) => {}
                Some(Err(_)) | None => return gone(),
            }
        }
    }

    /// What a rehearsal has found, once it has.
    pub fn rehearsed(&mut self) -> Option<Result<Rehearsed, String>> {
        match self.is_done(Duration::ZERO) {
            Ok(false) => None,
            Ok(true) => Some(read(&mut self.result).map_err(|error| error.to_string())),
            Err(why) => Some(Err(why)),
        }
    }

    /// The file with the pages of a replay.
    pub fn made(self, script: &Script) -> Result<File, String> {
        let (began, limit) = (Instant::now(), child::limit(script) + MARGIN);
        while !self.is_done(LOOK)? {
            if began.elapsed() > limit {
                return Err("the process for replays does not answer".into());
            }
        }
        self.result.try_clone().map_err(|error| error.to_string())
    }
}

/// Has a phase rehearsed, whose script this is.
pub fn rehearse(script: &[u8]) -> Result<Asked, String> {
    ask(Request::Rehearse, script)
}

/// Has these pages made, one after the other.
pub fn make(script: &Script, pages: &[PageRun]) -> Result<Asked, String> {
    let bytes = bincode::encode_to_vec((script, pages), standard()).map_err(|error| error.to_string())?;
    ask(Request::Make, &bytes)
}

fn ask(request: fn(u64) -> Request, bytes: &[u8]) -> Result<Asked, String> {
    let tell = |error: io::Error| error.to_string();
    let (mut question, result) = (child::memory_file().map_err(tell)?, child::memory_file().map_err(tell)?);
    question.write_all(bytes).map_err(tell)?;
    let mut seed = SEED.borrow_mut();
    let sent = seed.as_mut().map(|seed| {
        seed.last += 1;
        let files = [question.as_fd(), result.as_fd()];
        seed.line.send_with(&request(seed.last), &files).map(|()| seed.last)
    });
    drop(seed);
    match sent {
        Some(Ok(number)) => Ok(Asked { number, result }),
        Some(Err(_)) | None => gone(),
    }
}

/// What a file holds from its beginning.
fn read<T: bincode::Decode<()>>(file: &mut File) -> io::Result<T> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    let (what, _) = bincode::decode_from_slice(&bytes, standard()).map_err(io::Error::other)?;
    Ok(what)
}
