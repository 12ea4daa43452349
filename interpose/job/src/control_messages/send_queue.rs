//! Messages for which their sender does not wait.

use understudy_mpi::in_flight::{InFlightSet, Peer};
use understudy_mpi::{self as mpi, combine_results};

/// Control messages in flight.
#[derive(Default)]
pub struct SendQueue(Vec<InFlightSet<Vec<u8>>>);

impl SendQueue {
    /// No messages.
    pub const NONE: SendQueue = SendQueue(Vec::new());

    /// True if all messages have been sent and removed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sends a message to these processes.
    ///
    /// # Errors
    /// Fails if a procedure of the MPI library fails.
    pub fn send(
        &mut self,
        bytes: impl Into<Vec<u8>>,
        to: impl IntoIterator<Item = Peer>,
    ) -> mpi::Result<()> {
        let mut message = InFlightSet::default();
        message.send(to, bytes.into())?;
        self.0.push(message);
        Ok(())
    }

    /// Removes messages that have been sent, and those that have failed.
    ///
    /// # Errors
    /// Fails if a procedure of the MPI library fails.
    pub fn remove_sent(&mut self) -> mpi::Result<()> {
        let mut swept = Ok(());
        self.0.retain_mut(|message| {
            let sent = message.poll();
            let is_in_flight = matches!(sent, Ok(None));
            swept = combine_results(swept, sent.map(drop));
            is_in_flight
        });
        swept
    }
}
