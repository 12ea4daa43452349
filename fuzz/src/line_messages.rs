//! Messages between ranks, guardians and node managers, from arbitrary bytes.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;
use understudy_wire::line::{
    ChildStart, FromGuardian, Hello, InputReply, InputRequest, Line, LineSocket, ProcessPlace,
    ToGuardian, ToManager, ToProcess,
};

/// Largest permitted allocation: the limit of the decoder of lines.
pub const MAX_ALLOCATION: usize = 4 << 20;

/// Sends the bytes as a message of each type.
///
/// A decoded message must not change when it is sent again.
pub fn drive(bytes: &[u8]) {
    receive::<Hello>(bytes);
    receive::<ToManager>(bytes);
    receive::<ToProcess>(bytes);
    receive::<FromGuardian>(bytes);
    receive::<ToGuardian>(bytes);
    receive::<ChildStart>(bytes);
    receive::<InputRequest>(bytes);
    receive::<InputReply>(bytes);
    let text = String::from_utf8_lossy(bytes);
    ProcessPlace::parse(&text);
    LineSocket::guardian_of(&text);
}

fn receive<M: bincode::Decode<()> + bincode::Encode + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let (near, far) = Line::pair().expect("a pair of sockets");
    let far = UnixDatagram::from(OwnedFd::from(far));
    far.send(bytes).expect("the line has room");
    let Ok(message) = near.receive::<M>(Duration::ZERO) else {
        return;
    };
    let message = message.expect("a message has arrived");
    let (near, far) = Line::pair().expect("a pair of sockets");
    far.send(&message).expect("the line has room");
    let again = near.receive::<M>(Duration::ZERO);
    assert_eq!(again.expect("it can be decoded"), Some(message));
}
