//! Pending signals of the process or of the calling thread (signal(7)).
//!
//! Only by receiving a signal can its information be read (sigwaitinfo(2)), so all pending signals
//! are received and sent a second time in their order. A signal of a timer is not received, because
//! its receipt would restart the timer (timer_getoverrun(2)). Such a signal is restored as one
//! signal without a value.
#![allow(unsafe_code)]

use super::action::{IGNORE, SIGNALS, action};
use crate::user::thread_number::ThreadNumber;
use crate::user::thread_status::field_of;
use crate::user::timers::kernel_timer;
use understudy_abi::OWN_SIGNALS;
use understudy_catalogue::message;

/// Size of a `siginfo_t` in bytes (sigaction(2)).
const INFO: usize = size_of::<libc::siginfo_t>();

/// `si_code` of a signal of kill(2).
const SI_USER: i32 = 0;

/// Pending signal.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct PendingSignal {
    pub signal: i32,
    /// True if the signal is pending for the calling thread only.
    is_threads: bool,
    /// Bytes of a `siginfo_t`; empty for a signal of a timer.
    info: Vec<u8>,
}

/// Returns the pending signals, each as often as it was sent.
pub fn capture() -> Vec<PendingSignal> {
    if all_pending() & !OWN_SIGNALS == 0 {
        return Vec::new();
    }
    let pending = receive_all();
    pending.iter().for_each(PendingSignal::send);
    pending
}

/// Replaces the pending signals by those of `saved`.
///
/// The calling thread must block all pending signals.
pub fn restore(saved: &[PendingSignal]) {
    if all_pending() & !OWN_SIGNALS == 0 && saved.is_empty() {
        return;
    }
    let now = receive_all();
    let is_in = |set: &[PendingSignal], signal: &PendingSignal| set.iter().any(|it| it == signal);
    for signal in now.iter().filter(|it| it.info.is_empty()) {
        if !is_in(saved, signal) {
            discard(signal.signal);
        }
    }
    let is_there = |it: &&PendingSignal| !it.info.is_empty() || !is_in(&now, it);
    saved.iter().filter(is_there).for_each(PendingSignal::send);
}

/// Receives and returns the pending signals; those of timers are returned, but stay pending.
fn receive_all() -> Vec<PendingSignal> {
    let timer_signals = kernel_timer::signals();
    let signals = (1..=SIGNALS as i32).filter(|signal| !is_in(OWN_SIGNALS, *signal));
    let mut pending = Vec::new();
    for signal in signals {
        while is_in(all_pending(), signal) {
            let is_threads = is_in(pending_for_thread(), signal);
            let is_timers = is_in(timer_signals, signal);
            let info = if is_timers {
                Some(Vec::new())
            } else {
                receive(signal)
            };
            let Some(info) = info else { break };
            pending.push(PendingSignal {
                signal,
                is_threads,
                info,
            });
            if is_timers {
                break;
            }
        }
    }
    pending
}

fn is_in(set: u64, signal: i32) -> bool {
    set >> (signal - 1) & 1 != 0
}

/// Returns the signals that are pending for the process or for this thread.
fn all_pending() -> u64 {
    let mut set = 0u64;
    // SAFETY: rt_sigpending(2) with a mask of eight bytes.
    unsafe { libc::syscall(libc::SYS_rt_sigpending, &raw mut set, 8usize) };
    set
}

/// Returns the signals that are pending for this thread only (proc(5)).
fn pending_for_thread() -> u64 {
    field_of(ThreadNumber::own(), "SigPnd").unwrap_or_default()
}

/// Receives a pending signal, which must be blocked; returns its information.
pub fn receive(signal: i32) -> Option<Vec<u8>> {
    let mut info = vec![0u8; INFO];
    let set = 1u64 << (signal - 1);
    let at_once = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: rt_sigtimedwait(2) with a mask of eight bytes and a buffer of the required size.
    let taken = unsafe {
        let (set, at_once) = (&raw const set, &raw const at_once);
        libc::syscall(
            libc::SYS_rt_sigtimedwait,
            set,
            info.as_mut_ptr(),
            at_once,
            8usize,
        )
    };
    (taken == i64::from(signal)).then_some(info)
}

/// Discards a pending signal by changing its action temporarily.
fn discard(signal: i32) {
    let own = action(signal.into(), Some(&IGNORE));
    action(signal.into(), Some(&own));
}

impl PendingSignal {
    /// Sends the signal to this process, or to the calling thread.
    fn send(&self) {
        // SAFETY: getpid(2) and gettid(2) have no arguments and access no memory.
        let (process, thread) = unsafe { (libc::getpid(), libc::gettid()) };
        let mut info = self.info.clone();
        if info.is_empty() {
            info = vec![0; INFO];
            info[..4].copy_from_slice(&self.signal.to_ne_bytes());
            info[8..12].copy_from_slice(&SI_USER.to_ne_bytes());
        }
        // The saved information may name another process as the sender. rt_sigqueueinfo(2) accepts
        // such information only if the target is the number of the calling thread. The signal then
        // goes to the thread's process. SAFETY: rt_sigqueueinfo(2), rt_tgsigqueueinfo(2) with a
        // whole siginfo_t.
        let sent = unsafe {
            let info = info.as_ptr();
            match self.is_threads {
                true => libc::syscall(
                    libc::SYS_rt_tgsigqueueinfo,
                    process,
                    thread,
                    self.signal,
                    info,
                ),
                false => libc::syscall(libc::SYS_rt_sigqueueinfo, thread, self.signal, info),
            }
        };
        if sent != 0 {
            let error = std::io::Error::last_os_error();
            log::warn!("{}", message::signal_not_sent(self.signal, error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user::signals::mask;

    fn values(signal: i32) -> Vec<i32> {
        let value = |info: Vec<u8>| i32::from_ne_bytes(info[24..28].try_into().expect("four"));
        std::iter::from_fn(|| receive(signal)).map(value).collect()
    }

    #[test]
    fn signals_wait_as_often_and_with_the_values_as_before() {
        const SIGNAL: i32 = 40;
        let before = mask(Some(u64::MAX));
        let queue = |value: usize| {
            let value = libc::sigval {
                sival_ptr: value as *mut libc::c_void,
            };
            // SAFETY: pthread_sigqueue(3) to this thread.
            let sent = unsafe { libc::pthread_sigqueue(libc::pthread_self(), SIGNAL, value) };
            assert_eq!(sent, 0);
        };
        (1..=3).for_each(queue);
        let saved = capture();
        assert_eq!(saved.len(), 3);
        assert!(saved.iter().all(|it| it.is_threads && it.signal == SIGNAL));
        queue(4);
        restore(&saved);
        assert_eq!(values(SIGNAL), [1, 2, 3]);
        // After `values` no signal is pending, as in another process.
        restore(&saved);
        assert_eq!(values(SIGNAL), [1, 2, 3]);
        restore(&[]);
        assert!(values(SIGNAL).is_empty());
        mask(Some(before));
    }
}
