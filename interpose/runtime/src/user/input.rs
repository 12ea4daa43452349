//! Standard input from a pipe, as the launcher gives it to a rank: what the program has read of it cannot be read again.
//!
//! What it had read at the checkpoint is in its memory. What it reads later would be missing after a rollback, so that is
//! noticed (inotify(7) tells of reads of a pipe, too), and ends the job. Files are no matter: their position is saved.
#![allow(unsafe_code)]

use super::UserError;
use crate::user::Runtime;
use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;

/// What is known of the input.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Saved {
    /// Grows between two looks if the program has read in between.
    reads: u64,
}

#[derive(Debug, Default)]
pub(super) struct Input {
    /// Tells of reads.
    watch: Option<File>,
    reads: u64,
}

impl Input {
    /// At the start of the process.
    pub(super) const START: Input = Input {
        watch: None,
        reads: 0,
    };
}

/// Begins to watch, before the program runs.
pub fn remember_start(rt: &Runtime) {
    rt.input.borrow_mut().begin();
}

fn is_pipe() -> bool {
    // SAFETY: a plain structure, which fstat(2) fills.
    unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        libc::fstat(libc::STDIN_FILENO, &mut about) == 0
            && about.st_mode & libc::S_IFMT == libc::S_IFIFO
    }
}

/// `None` if this user has too many watches: then nothing is noticed.
fn watch() -> Option<File> {
    // SAFETY: inotify_init1(2) makes a descriptor, which is the runtime side's, and inotify_add_watch(2) adds to it.
    unsafe {
        let fd = libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC);
        let watch = (fd >= 0).then(|| File::from_raw_fd(fd))?;
        (libc::inotify_add_watch(fd, c"/proc/self/fd/0".as_ptr(), libc::IN_ACCESS) >= 0)
            .then_some(watch)
    }
}

/// For a process that only replays a worker's calls, and may be its child: what it read would be missing in the worker. It
/// finds the end of input, as every spare does.
pub fn leave() {
    if !is_pipe() {
        return;
    }
    // SAFETY: open(2), dup2(2) and close(2) of descriptors of this process, which has one thread.
    unsafe {
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
        libc::dup2(nothing, libc::STDIN_FILENO);
        libc::close(nothing);
    }
}

/// Looks whether something has been read since the last look.
pub fn capture(rt: &Runtime) -> Saved {
    rt.input.borrow_mut().capture()
}

/// Refuses if the program has read since the cut. `own`: this process is the one that was saved.
pub fn restore(rt: &Runtime, saved: &Saved, own: bool) -> Result<(), UserError> {
    rt.input.borrow_mut().restore(saved, own)
}

impl Input {
    fn begin(&mut self) {
        self.watch = is_pipe().then(watch).flatten();
    }

    fn capture(&mut self) -> Saved {
        let mut events = [0; 4096];
        if let Some(watch) = &mut self.watch
            && watch.read(&mut events).is_ok_and(|length| length > 0)
        {
            self.reads += 1;
        }
        Saved { reads: self.reads }
    }

    fn restore(&mut self, saved: &Saved, own: bool) -> Result<(), UserError> {
        if own {
            return match self.capture() == *saved {
                true => Ok(()),
                false => Err(UserError::Input),
            };
        }
        if saved.reads > 0 {
            log::warn!(
                "the program has read standard input; what it had not read at the checkpoint is not there any more (a file \
                 can be read again: sh -c 'exec PROGRAM < FILE')"
            );
        }
        self.reads = saved.reads;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    #[test]
    fn reads_of_a_pipe_are_noticed_and_a_replay_makes_none() {
        let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
        // SAFETY: dup2(2); no other test uses standard input.
        unsafe { libc::dup2(reader.as_raw_fd(), libc::STDIN_FILENO) };
        let mut input = Input::default();
        input.begin();
        writer.write_all(b"abc").expect("there is room");
        let before = input.capture();
        assert!(input.restore(&before, true).is_ok(), "nothing was read");
        let mut byte = [0];
        reader.read_exact(&mut byte).expect("there is a byte");
        assert!(input.restore(&before, true).is_err());
        let after = input.capture();
        assert!(input.restore(&after, true).is_ok(), "it was read before");
        leave();
        assert!(!is_pipe());
        assert_eq!(std::io::stdin().read(&mut byte).expect("readable"), 0);
        assert_eq!(input.capture(), after);
        // An understudy counts on from there.
        input.watch = None;
        assert!(input.restore(&before, false).is_ok());
        assert_eq!(input.capture(), before);
    }
}
