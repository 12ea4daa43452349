//! Lost nodes are taken out of the allocation of Slurm.

use super::slurm::release;
use crate::Error;
use crate::print_message::print_message_to;
use crate::spawn_thread::spawn_thread;
use crate::streams::Streams;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::sleep;
use std::time::Duration;
use understudy_catalogue::message;

/// Time in which nodes that fail together are noticed.
///
/// Slurm (22.05) refuses a second change of an allocation until the accounting database has noted
/// the first change, and for ever without such a database.
const GATHERING_TIME: Duration = Duration::from_secs(1);
/// Number of attempts, which Slurm extends by 5 s each while the database is slow.
const ATTEMPTS: u32 = 5;
/// Time limit for the last commands after the job's end.
const LAST_RELEASE_TIMEOUT: Duration = Duration::from_secs(10);

/// Thread that takes lost nodes out of this process's allocation.
///
/// Slurm ends a job that has lost a node, unless the job was submitted with `--no-kill`.
pub(super) struct NodeReleases {
    hosts: Sender<String>,
    /// Disconnected when the thread ends.
    end: Receiver<()>,
}

impl NodeReleases {
    /// Starts the thread; `None` outside of Slurm.
    ///
    /// # Errors
    /// Errors of starting a thread.
    pub fn start(streams: &Streams) -> Result<Option<NodeReleases>, Error> {
        let Ok(job) = std::env::var("SLURM_JOB_ID") else {
            return Ok(None);
        };
        let stderr = streams.stderr.try_clone();
        let stderr = stderr.map_err(Error::system("standard error"))?;
        let (hosts, received) = channel::<String>();
        let (sender, end) = channel();
        spawn_thread(move || {
            let _ends_with_thread: Sender<()> = sender;
            let print = |message: &dyn Display| print_message_to(&stderr, message);
            while let Ok(first) = received.recv() {
                release_all(&job, first, &received, &print);
            }
        })
        .map_err(Error::system("a thread"))?;
        Ok(Some(NodeReleases { hosts, end }))
    }

    /// Takes a lost node out of the allocation, without waiting.
    pub fn release(&self, host: &str) {
        // The thread ends with this value.
        let _ = self.hosts.send(host.to_owned());
    }

    /// Waits until all lost nodes are taken out.
    ///
    /// Slurm would otherwise end the next command of a batch script.
    pub fn finish(self) {
        drop(self.hosts);
        let _ = self.end.recv_timeout(LAST_RELEASE_TIMEOUT);
    }
}

/// Takes this node, and all that are lost meanwhile, out of an allocation.
fn release_all(job: &str, first: String, more: &Receiver<String>, print: &dyn Fn(&dyn Display)) {
    let mut lost = BTreeSet::from([first]);
    for attempt in 1.. {
        sleep(GATHERING_TIME);
        lost.extend(more.try_iter());
        match release(job, &lost) {
            Ok(released) => {
                let messages = released
                    .iter()
                    .map(|host| message::node_released(host, job));
                return messages.for_each(|message| print(&message));
            }
            Err(why) if attempt == ATTEMPTS => {
                let message = |host| message::node_not_released(host, job, &why);
                return lost.iter().map(message).for_each(|message| print(&message));
            }
            Err(_) => {}
        }
    }
}
