//! Readiness of many descriptors (epoll(7)).
#![allow(unsafe_code)]

use polling::{Event, Events, PollMode};
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use understudy_wire::io::Interest;

/// Limit of a wait after an interest could not be changed for lack of memory.
pub const RETRY: Duration = Duration::from_millis(10);

/// Waits for the sources of its registry.
///
/// Sources are level-triggered: a source that is not read or written is also ready at the next
/// wait.
pub struct Poller {
    registry: Registry,
    events: Events,
}

/// Handle by which any thread registers sources for a poller, and wakes it.
#[derive(Clone, Debug)]
pub struct Registry(Arc<Registered>);

#[derive(Debug)]
struct Registered {
    epoll: polling::Poller,
    next_key: AtomicUsize,
}

/// Sources that were ready at the end of a wait.
#[derive(Clone, Default, Debug)]
pub struct Ready(BTreeSet<usize>);

/// Owner of a descriptor for which a poller waits.
///
/// The registration ends before the descriptor is closed.
pub struct Source<T: AsFd> {
    inner: T,
    key: usize,
    interest: Interest,
    registry: Registry,
}

impl Poller {
    /// Makes a poller without sources.
    ///
    /// # Errors
    /// Errors of epoll_create1(2), eventfd(2) and timerfd_create(2).
    pub fn new() -> io::Result<Poller> {
        let registered = Registered {
            epoll: polling::Poller::new()?,
            next_key: AtomicUsize::new(0),
        };
        Ok(Poller {
            registry: Registry(Arc::new(registered)),
            events: Events::new(),
        })
    }

    /// Returns the registry of the poller.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Blocks until a source is ready, the registry is woken, or `limit` has passed.
    ///
    /// # Errors
    /// Errors of epoll_wait(2). A signal does not end the wait.
    pub fn wait(&mut self, limit: Option<Duration>) -> io::Result<Ready> {
        self.events.clear();
        self.registry.0.epoll.wait(&mut self.events, limit)?;
        Ok(Ready(self.events.iter().map(|event| event.key).collect()))
    }
}

impl Registry {
    /// Ends the current wait of the poller, or the next one.
    pub fn wake(&self) {
        // Fails only if the poller has been woken already.
        let _ = self.0.epoll.notify();
    }
}

impl Ready {
    /// True if this source was ready.
    pub fn contains<T: AsFd>(&self, source: &Source<T>) -> bool {
        self.0.contains(&source.key)
    }
}

impl<T: AsFd> Source<T> {
    /// Registers a descriptor.
    ///
    /// # Errors
    /// Errors of epoll_ctl(2): `PermissionDenied` for a regular file, which is always ready.
    pub fn new(registry: &Registry, inner: T, interest: Interest) -> io::Result<Source<T>> {
        let mut source = Source {
            inner,
            key: registry.0.next_key.fetch_add(1, Ordering::Relaxed),
            interest: Interest::NONE,
            registry: registry.clone(),
        };
        source.set_interest(interest)?;
        Ok(source)
    }

    /// Changes the operations that the source is to be ready for.
    ///
    /// # Errors
    /// Errors of epoll_ctl(2); the interest is unchanged after an error.
    pub fn set_interest(&mut self, interest: Interest) -> io::Result<()> {
        if interest == self.interest {
            return Ok(());
        }
        let epoll = &self.registry.0.epoll;
        let event = Event::new(self.key, interest.reads, interest.writes);
        if interest == Interest::NONE {
            // A registered descriptor reports its end regardless of the interest.
            epoll.delete(&self.inner)?;
        } else if self.interest == Interest::NONE {
            // SAFETY: the descriptor stays open while it is registered: `drop` deletes the
            // registration before `inner` is dropped, and `get_mut` requires that the owner keeps
            // the descriptor.
            unsafe { epoll.add_with_mode(&self.inner.as_fd(), event, PollMode::Level)? };
        } else {
            epoll.modify_with_mode(&self.inner, event, PollMode::Level)?;
        }
        self.interest = interest;
        Ok(())
    }
}

impl<T: AsFd> Source<T> {
    /// Returns the owner of the descriptor, which must keep the descriptor.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: AsFd> Drop for Source<T> {
    fn drop(&mut self) {
        // Without memory for the change, the only effect is that waits may end early.
        let _ = self.set_interest(Interest::NONE);
    }
}

impl<T: AsFd> Deref for Source<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: AsFd> AsFd for Source<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl<T: AsFd + fmt::Debug> fmt::Debug for Source<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Source");
        debug
            .field("inner", &self.inner)
            .field("interest", &self.interest);
        debug.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    const NOW: Option<Duration> = Some(Duration::ZERO);

    fn source(poller: &Poller, interest: Interest) -> (Source<UnixStream>, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        let near = Source::new(poller.registry(), near, interest).unwrap();
        (near, far)
    }

    #[test]
    fn a_source_is_ready_until_it_is_read() {
        let mut poller = Poller::new().unwrap();
        let (near, mut far) = source(&poller, Interest::READ);
        let (other, _far) = source(&poller, Interest::READ);
        assert!(!poller.wait(NOW).unwrap().contains(&near));
        far.write_all(b"ab").unwrap();
        for _ in 0..2 {
            let ready = poller.wait(None).unwrap();
            assert!(ready.contains(&near) && !ready.contains(&other));
            (&*near).read_exact(&mut [0]).unwrap();
        }
        assert!(!poller.wait(NOW).unwrap().contains(&near));
        drop(far);
        assert!(poller.wait(None).unwrap().contains(&near));
    }

    #[test]
    fn interest_changes_and_an_end_without_interest_is_not_reported() {
        let mut poller = Poller::new().unwrap();
        let (mut near, far) = source(&poller, Interest::new(true, true));
        assert!(poller.wait(None).unwrap().contains(&near));
        near.set_interest(Interest::READ).unwrap();
        assert!(!poller.wait(NOW).unwrap().contains(&near));
        near.set_interest(Interest::NONE).unwrap();
        drop(far);
        assert!(!poller.wait(NOW).unwrap().contains(&near));
        near.set_interest(Interest::WRITE).unwrap();
        assert!(poller.wait(None).unwrap().contains(&near));
    }

    #[test]
    fn a_source_that_is_dropped_is_not_waited_for_even_if_its_descriptor_lives_on() {
        let mut poller = Poller::new().unwrap();
        let (near, far) = source(&poller, Interest::READ);
        let copy = near.try_clone().unwrap();
        drop((near, far));
        let began = Instant::now();
        poller.wait(Some(Duration::from_millis(20))).unwrap();
        assert!(began.elapsed() >= Duration::from_millis(20));
        // The number of the descriptor is free for another source.
        let (near, mut far) = source(&poller, Interest::READ);
        far.write_all(b"a").unwrap();
        assert!(poller.wait(None).unwrap().contains(&near));
        drop(copy);
    }

    #[test]
    fn another_thread_ends_a_wait() {
        let mut poller = Poller::new().unwrap();
        let registry = poller.registry().clone();
        registry.wake();
        poller.wait(None).unwrap();
        let waker = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(10));
            registry.wake();
        });
        poller.wait(None).unwrap();
        waker.join().unwrap();
    }

    #[test]
    fn a_regular_file_is_no_source() {
        let poller = Poller::new().unwrap();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let refused = Source::new(poller.registry(), file, Interest::READ).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }
}
