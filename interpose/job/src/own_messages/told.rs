//! Messages for which their sender does not wait.
#![allow(unsafe_code)]

use super::lent::Lent;
use super::peer::{Peer, send, test};
use understudy_mpi as mpi;
use understudy_mpi::real_types::RealRequest;

/// Control messages in flight.
pub struct Told(Vec<Message>);

struct Message {
    bytes: Lent<Box<[u8]>>,
    requests: Vec<RealRequest>,
}

impl Told {
    /// No messages.
    pub const NONE: Told = Told(Vec::new());

    /// Sends a message to these processes.
    ///
    /// # Errors
    /// The error of a real procedure.
    pub fn send(
        &mut self,
        bytes: impl Into<Box<[u8]>>,
        to: impl IntoIterator<Item = Peer>,
    ) -> mpi::Result<()> {
        let bytes = Lent::new(bytes.into());
        let (place, length, mut requests) = (bytes.as_ptr().cast(), bytes.len(), Vec::new());
        // SAFETY: the bytes stay in place until the requests are complete.
        let sent = to
            .into_iter()
            .try_for_each(|to| unsafe { send(place, length, to, &mut requests) });
        self.0.push(Message { bytes, requests });
        sent
    }

    /// Removes messages that have been sent.
    ///
    /// # Errors
    /// The error of a real procedure.
    pub fn sweep(&mut self) -> mpi::Result<()> {
        let mut swept = Ok(());
        self.0.retain_mut(|message| {
            let ended = test(&mut message.requests);
            let has_ended = matches!(ended, Ok(true));
            if has_ended {
                message.bytes.give_back();
            }
            swept = ended.map(drop).and(swept);
            !has_ended
        });
        swept
    }
}
