//! A thread that works on copies beside the program.

#![allow(unsafe_code)]

use super::threads::without_signals;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Work, and its result.
pub type Work = Box<dyn FnOnce() -> Vec<u64> + Send>;

/// The thread: one piece of work at a time.
#[derive(Debug)]
pub struct Helper {
    jobs: Sender<Work>,
    done: Receiver<Vec<u64>>,
}

/// Work that is under way, or its result.
#[derive(Debug)]
pub struct Task {
    result: Option<Vec<u64>>,
}

impl Helper {
    /// Starts the thread.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn new() -> std::io::Result<Self> {
        let (jobs, todo) = channel::<Work>();
        let (tell, done) = channel();
        let work = move || {
            for job in todo {
                if tell.send(job()).is_err() {
                    return;
                }
            }
        };
        without_signals(|| {
            std::thread::Builder::new()
                .name("understudy-copies".into())
                .spawn(work)
        })?;
        Ok(Self { jobs, done })
    }

    /// Starts work. What it uses must stay as it is until [`Helper::end`]; nothing else may be
    /// started until then.
    pub fn start(&self, work: Work) -> Task {
        // A thread that has ended leaves the work to this one.
        let result = self.jobs.send(work).err().map(|unsent| (unsent.0)());
        Task { result }
    }

    /// Does work that is so little that no thread should be woken.
    pub fn do_now(&self, work: Work) -> Task {
        Task {
            result: Some(work()),
        }
    }

    /// Whether the work is done.
    pub fn is_over(&self, task: &mut Task) -> bool {
        if task.result.is_none() {
            task.result = self.done.try_recv().ok();
        }
        task.result.is_some()
    }

    /// Waits for the result.
    pub fn end(&self, task: Task) -> Vec<u64> {
        let result = task.result.or_else(|| self.done.recv().ok());
        result.expect("the helping thread ends with its process")
    }
}
