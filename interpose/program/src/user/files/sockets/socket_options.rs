//! Restored options of sockets (socket(7), tcp(7), ip(7), ipv6(7)).
#![allow(unsafe_code)]

/// Flags of the buffer sizes that the program has set itself (Linux 5.14).
///
/// Bit 1 stands for the send buffer, bit 2 for the receive buffer.
const SO_BUF_LOCK: i32 = 72;
const SEND_BUFFER_LOCKED: i32 = 1;
const RECEIVE_BUFFER_LOCKED: i32 = 2;

const IP_LOCAL_PORT_RANGE: i32 = 51;

/// Option of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOption {
    level: i32,
    name: i32,
    /// Size of the value in bytes.
    size: usize,
}

const fn sized(level: i32, name: i32, size: usize) -> SocketOption {
    SocketOption { level, name, size }
}

const fn integer(level: i32, name: i32) -> SocketOption {
    sized(level, name, size_of::<i32>())
}

const fn general(name: i32) -> SocketOption {
    integer(libc::SOL_SOCKET, name)
}

const fn tcp(name: i32) -> SocketOption {
    integer(libc::IPPROTO_TCP, name)
}

pub const PEEK_OFFSET: SocketOption = general(libc::SO_PEEK_OFF);
pub const REUSE_ADDRESS: SocketOption = general(libc::SO_REUSEADDR);
pub const REUSE_PORT: SocketOption = general(libc::SO_REUSEPORT);
pub const LINGER: SocketOption = sized(libc::SOL_SOCKET, libc::SO_LINGER, 8);
pub const RECEIVE_BUFFER: SocketOption = general(libc::SO_RCVBUF);
const SEND_BUFFER: SocketOption = general(libc::SO_SNDBUF);
const BUFFER_LOCK: SocketOption = general(SO_BUF_LOCK);
pub const NO_DELAY: SocketOption = tcp(libc::TCP_NODELAY);
pub const CORK: SocketOption = tcp(libc::TCP_CORK);
pub const QUICK_ACK: SocketOption = tcp(libc::TCP_QUICKACK);
pub const DEFER_ACCEPT: SocketOption = tcp(libc::TCP_DEFER_ACCEPT);
pub const BIND_WITHOUT_PORT: SocketOption =
    integer(libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT);
/// Lowest and highest port of a connection (Linux 6.3).
pub const PORT_RANGE: SocketOption = integer(libc::IPPROTO_IP, IP_LOCAL_PORT_RANGE);
pub const ONLY_V6: SocketOption = integer(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY);

/// Restored options.
///
/// The lock of buffer sizes follows the sizes, because setting a size sets the lock.
pub const OPTIONS: [SocketOption; 32] = [
    SEND_BUFFER,
    RECEIVE_BUFFER,
    BUFFER_LOCK,
    REUSE_ADDRESS,
    REUSE_PORT,
    general(libc::SO_BROADCAST),
    general(libc::SO_KEEPALIVE),
    general(libc::SO_OOBINLINE),
    general(libc::SO_PRIORITY),
    general(libc::SO_PASSCRED),
    general(libc::SO_RCVLOWAT),
    general(libc::SO_DONTROUTE),
    general(libc::SO_ZEROCOPY),
    LINGER,
    sized(libc::SOL_SOCKET, libc::SO_RCVTIMEO, 16),
    sized(libc::SOL_SOCKET, libc::SO_SNDTIMEO, 16),
    PEEK_OFFSET,
    ONLY_V6,
    integer(libc::IPPROTO_IP, libc::IP_TOS),
    integer(libc::IPPROTO_IP, libc::IP_TTL),
    integer(libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    NO_DELAY,
    CORK,
    DEFER_ACCEPT,
    tcp(libc::TCP_KEEPIDLE),
    tcp(libc::TCP_KEEPINTVL),
    tcp(libc::TCP_KEEPCNT),
    tcp(libc::TCP_SYNCNT),
    tcp(libc::TCP_LINGER2),
    tcp(libc::TCP_USER_TIMEOUT),
    tcp(libc::TCP_FASTOPEN),
    tcp(libc::TCP_NOTSENT_LOWAT),
];

impl SocketOption {
    /// Reads the option; empty if the socket does not support it.
    pub fn read(self, fd: i32) -> Vec<u8> {
        let mut value = vec![0u8; self.size];
        let mut length = self.size as libc::socklen_t;
        let at = value.as_mut_ptr().cast();
        // SAFETY: getsockopt(2) writes at most `length` bytes.
        let rc = unsafe { libc::getsockopt(fd, self.level, self.name, at, &raw mut length) };
        value.truncate(if rc == 0 { length as usize } else { 0 });
        value
    }

    /// Sets the option to a value, in the form that [`SocketOption::read`] returns.
    pub fn write(self, fd: i32, value: &[u8]) {
        let mut value = value.to_vec();
        // The kernel doubles the value that it receives (socket(7)).
        if matches!(self, SEND_BUFFER | RECEIVE_BUFFER)
            && let Ok(bytes) = value.as_slice().try_into()
        {
            value = (i32::from_ne_bytes(bytes) / 2).to_ne_bytes().to_vec();
        }
        let length = value.len() as libc::socklen_t;
        // SAFETY: setsockopt(2) with a value of this length.
        unsafe { libc::setsockopt(fd, self.level, self.name, value.as_ptr().cast(), length) };
    }

    /// Sets an option whose value is a number.
    pub fn write_number(self, fd: i32, value: i32) {
        self.write(fd, &value.to_ne_bytes());
    }
}

/// Reads a general option whose value is a number.
///
/// -1 if the descriptor does not support the option.
pub fn number(fd: i32, name: i32) -> i32 {
    let value = general(name).read(fd);
    value.try_into().map_or(-1, i32::from_ne_bytes)
}

/// Values of all [`OPTIONS`]; empty for an option that the socket does not support.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct OptionValues(Vec<Vec<u8>>);

impl OptionValues {
    /// Reads the options of a socket.
    pub fn read(fd: i32) -> OptionValues {
        OptionValues(OPTIONS.iter().map(|option| option.read(fd)).collect())
    }

    /// Returns the value of an option.
    fn value(&self, option: SocketOption) -> &[u8] {
        let mut all = OPTIONS.iter().zip(&self.0);
        all.find(|(other, _)| **other == option)
            .map_or(&[], |(_, value)| value)
    }

    /// True if the option is set.
    pub fn has(&self, option: SocketOption) -> bool {
        self.value(option).iter().any(|byte| *byte != 0)
    }

    /// Sets the options of a socket to these values.
    pub fn apply(&self, fd: i32) {
        for (option, value) in OPTIONS.iter().zip(&self.0) {
            if !value.is_empty() && !self.is_tuned(fd, *option) && option.read(fd) != *value {
                option.write(fd, value);
            }
        }
    }

    /// True for a buffer size that the kernel adapts to the connection (tcp(7)).
    fn is_tuned(&self, fd: i32, option: SocketOption) -> bool {
        let bit = match option {
            SEND_BUFFER => SEND_BUFFER_LOCKED,
            RECEIVE_BUFFER => RECEIVE_BUFFER_LOCKED,
            _ => return false,
        };
        let is_unlocked = |value: &[u8]| {
            value
                .try_into()
                .is_ok_and(|lock| i32::from_ne_bytes(lock) & bit == 0)
        };
        number(fd, libc::SO_PROTOCOL) == libc::IPPROTO_TCP
            && is_unlocked(self.value(BUFFER_LOCK))
            && is_unlocked(&BUFFER_LOCK.read(fd))
    }
}

/// Sets SO_LINGER to zero seconds, so that close(2) resets the connection.
pub fn reset_at_close(fd: i32) {
    let linger = [1i32, 0].map(i32::to_ne_bytes);
    LINGER.write(fd, linger.as_flattened());
}
