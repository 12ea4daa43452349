//! Clients that send arbitrary bytes, for the fuzz target `daemon` and for a test.
//!
//! The clients use [`Connection`] and [`Service`] directly, without the event loop of the server.

use super::connection::{Connection, ConnectionOutcome, Stream};
use super::service::{ClientIdentity, Service};
use crate::pool::Rules;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use understudy_wire::{Answer, Decoder, Request, VERSION, encode};

/// Number of clients: two of this user, and one that has not authenticated.
const CLIENTS: usize = 3;

/// A client and its connection at the daemon.
struct Client {
    /// The client's end of the socket.
    far: UnixStream,
    /// The daemon's end.
    near: Connection,
    answers: Decoder,
}

/// Makes clients act as the bytes describe.
///
/// Each step begins with two bytes: a selector of the client and its action, and the length of the
/// payload that follows. The actions are to send the payload as it is, to send it as a valid frame,
/// to close the connection, and to let time pass.
pub fn drive(mut bytes: &[u8]) {
    let mut service = Service::new(Rules::default(), 1, vec![b"0123456789abcdef".to_vec()]);
    let mut clients: [Option<Client>; CLIENTS] = [const { None }; CLIENTS];
    let mut now = Duration::ZERO;
    while let [selector, length, rest @ ..] = bytes {
        let (payload, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        bytes = rest;
        let index = usize::from(*selector) % CLIENTS;
        let client = clients[index].get_or_insert_with(|| Client::new(now, index));
        let outcome = match *selector / CLIENTS as u8 % 8 {
            0 => client.send(now, &mut service, payload),
            1 => ConnectionOutcome::Closed,
            2 => {
                now +=
                    Duration::from_millis(payload.iter().map(|byte| u64::from(*byte) * 20).sum());
                service.tick(now, |launcher| launcher % 2 == 0);
                service.metrics(CLIENTS);
                // With a deadline in the past, the event loop would never sleep.
                assert!(
                    service
                        .next_deadline(now)
                        .is_none_or(|deadline| deadline > now)
                );
                ConnectionOutcome::Continue
            }
            _ => client.send(now, &mut service, &framed(payload)),
        };
        if outcome != ConnectionOutcome::Continue
            && let Some(client) = clients[index].take()
            && let Some(identity) = client.near.identity()
        {
            service.connection_ended(now, identity);
        }
    }
    // The final state must be reportable.
    let mut identity = ClientIdentity::OWN;
    service.handle(now, &mut identity, Request::Status);
}

impl Client {
    fn new(now: Duration, index: usize) -> Self {
        let (far, near) = UnixStream::pair().expect("a pair of sockets");
        for socket in [&far, &near] {
            socket.set_nonblocking(true).expect("it is a socket");
        }
        let identity = match index {
            0 | 1 => ClientIdentity::OWN,
            _ => ClientIdentity::Unauthenticated { nonce: [7; 32] },
        };
        Self {
            far,
            near: Connection::frames(now, Stream::Unix(near), identity),
            answers: Decoder::default(),
        }
    }

    /// Sends bytes, and decodes the answers that have been received so far.
    ///
    /// # Panics
    /// Panics if an answer is invalid.
    fn send(&mut self, now: Duration, service: &mut Service, bytes: &[u8]) -> ConnectionOutcome {
        self.far
            .write_all(bytes)
            .expect("there is room for so few bytes");
        let outcome = self.near.read(now, service, CLIENTS);
        let mut buffer = [0; 64 << 10];
        while let Ok(got @ 1..) = self.far.read(&mut buffer) {
            self.answers.feed(&buffer[..got]);
            while let Some(answer) = self
                .answers
                .take::<Answer>()
                .expect("the daemon sends valid answers")
            {
                assert!(encode(&answer).is_some());
            }
        }
        outcome
    }
}

/// Returns a valid frame with this payload.
fn framed(payload: &[u8]) -> Vec<u8> {
    let check = xxhash_rust::xxh3::xxh3_64(payload) as u32;
    let mut frame = b"USCK".to_vec();
    frame.extend(VERSION.to_le_bytes());
    frame.extend([0; 2]);
    frame.extend((payload.len() as u32).to_le_bytes());
    frame.extend(check.to_le_bytes());
    frame.extend(payload);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use understudy_wire::{HEAD_BYTES, MAX_UNAUTHENTICATED_BYTES};

    /// Clients send part of a frame that is too long for an unauthenticated client.
    ///
    /// The daemon disconnects the client that has not authenticated, and waits for the rest of the
    /// frame of a client of this user.
    #[test]
    fn a_client_without_a_proof_may_send_little() {
        let mut service = Service::new(Rules::default(), 1, vec![b"0123456789abcdef".to_vec()]);
        for (index, outcome) in [
            (0, ConnectionOutcome::Continue),
            (CLIENTS - 1, ConnectionOutcome::Closed),
        ] {
            let mut client = Client::new(Duration::ZERO, index);
            let whole = framed(&vec![0; 2 * MAX_UNAUTHENTICATED_BYTES]);
            let part = &whole[..HEAD_BYTES + MAX_UNAUTHENTICATED_BYTES];
            assert_eq!(client.send(Duration::ZERO, &mut service, part), outcome);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

        /// Random frames and bytes never make the daemon panic or send an invalid answer.
        #[test]
        fn clients_may_send_anything(steps in vec((any::<u8>(), vec(0u8..12, 0..40)), 0..40)) {
            let mut bytes = Vec::new();
            for (selector, payload) in steps {
                bytes.extend([selector, payload.len() as u8]);
                bytes.extend(payload);
            }
            super::drive(&bytes);
        }
    }
}
