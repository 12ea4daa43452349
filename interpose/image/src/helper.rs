//! A thread that works on page copies while the program runs.

#![allow(unsafe_code)]

use super::threads::with_signals_blocked;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Computation for the helper thread, and its result.
pub type HelperWork = Box<dyn FnOnce() -> Vec<u64> + Send>;

/// Helper thread, which executes one computation at a time.
#[derive(Debug)]
pub struct Helper {
    work: Sender<HelperWork>,
    results: Receiver<Vec<u64>>,
}

/// Running computation or its result.
#[derive(Debug)]
pub struct HelperTask {
    result: Option<Vec<u64>>,
}

impl Helper {
    /// Starts the thread.
    ///
    /// # Errors
    /// Fails if the thread cannot be created.
    pub fn new() -> std::io::Result<Self> {
        let (work, work_receiver) = channel::<HelperWork>();
        let (result_sender, results) = channel();
        let run = move || {
            for work in work_receiver {
                if result_sender.send(work()).is_err() {
                    return;
                }
            }
        };
        with_signals_blocked(|| {
            std::thread::Builder::new()
                .name("understudy-copies".into())
                .spawn(run)
        })?;
        Ok(Self { work, results })
    }

    /// Starts a computation.
    ///
    /// The inputs of the computation must not change, and no other computation may be started,
    /// until [`Helper::wait`].
    pub fn start(&self, work: HelperWork) -> HelperTask {
        // If the thread has exited, the caller executes the work.
        let result = self.work.send(work).err().map(|unsent| (unsent.0)());
        HelperTask { result }
    }

    /// Executes work in the calling thread.
    ///
    /// The method is for work that takes less time than waking the helper thread.
    pub fn do_now(&self, work: HelperWork) -> HelperTask {
        HelperTask {
            result: Some(work()),
        }
    }

    /// Returns true if the work is done, and stores its result in the task.
    pub fn poll(&self, task: &mut HelperTask) -> bool {
        if task.result.is_none() {
            task.result = self.results.try_recv().ok();
        }
        task.result.is_some()
    }

    /// Blocks until the result is available and returns it.
    pub fn wait(&self, task: HelperTask) -> Vec<u64> {
        let result = task.result.or_else(|| self.results.recv().ok());
        result.expect("the helper thread lives as long as the process")
    }
}
