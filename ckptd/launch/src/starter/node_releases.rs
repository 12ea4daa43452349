//! Lost nodes are taken out of the allocation of Slurm.

use super::slurm::release;
use crate::Error;
use crate::print_message::print_message_to;
use crate::spawn_thread::spawn_thread;
use crate::streams::Streams;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use understudy_catalogue::message;

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
            for host in received {
                match release(&job, &host) {
                    Ok(true) => print_message_to(&stderr, message::node_released(host, &job)),
                    Ok(false) => {}
                    Err(why) => {
                        print_message_to(&stderr, message::node_not_released(host, &job, why));
                    }
                }
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

    /// Waits until lost nodes are taken out: Slurm would otherwise end a batch script's next command.
    pub fn finish(self) {
        drop(self.hosts);
        let _ = self.end.recv_timeout(LAST_RELEASE_TIMEOUT);
    }
}
