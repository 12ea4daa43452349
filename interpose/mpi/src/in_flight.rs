//! In-flight buffers: memory of the runtime's nonblocking operations.
//!
//! ```text
//!   send, receive ──► in flight ── poll: complete ──► returned to the caller
//!                         │
//!                         └── dropped, failed ──► kept ── next MPI instance ──► freed
//! ```
//!
//! An operation owns its memory, so no other code can read, change or free the memory before the
//! operation is complete. An error does not imply that a transfer has ended: the library and other
//! processes may access the memory until all processes have left the MPI instance. Memory of an
//! operation that is not complete is therefore kept until this process enters another instance. A
//! process enters an instance only after all processes have left the earlier one.
//!
//! Requests end with their MPI instance. Operations of an earlier instance are inert: they return
//! [`Error::ABANDONED`] without a call of the library, and free their memory.
#![allow(unsafe_code)]

use crate::bytes::Bytes;
use crate::call::own_instance;
use crate::error::{Error, Result, check};
use crate::plain::Plain;
use crate::procedures::real;
use crate::real_types::{ANY_SOURCE, RealComm, RealDatatype, RealMessage, RealRequest, Status};
use std::any::Any;
use std::ffi::{c_int, c_void};
use std::mem::take;
use std::sync::{Mutex, PoisonError};
use understudy_numbers::{Generation, Worker};

/// Buffers that were in flight when their owner was dropped, each with its MPI instance.
type KeptMemory = Vec<(Generation, Box<dyn Any + Send>)>;

/// Kept memory; process-wide, because `Drop` has no access to the `Runtime`.
static KEPT_MEMORY: Mutex<KeptMemory> = Mutex::new(Vec::new());

/// Frees kept memory of earlier MPI instances, which all processes have left.
pub fn free_kept() {
    let mut kept = KEPT_MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    kept.retain(|(instance, _)| *instance == own_instance());
}

/// Memory for an operation of the library.
///
/// # Safety
/// The memory must be valid until the value is dropped, must stay in place if the value moves, and
/// must be accessed only through the value. Any bytes must be valid content of the memory.
pub unsafe trait Buffer: Send + 'static {
    /// Returns the address of the memory, and its length in bytes.
    fn memory(&mut self) -> (*mut c_void, usize);
}

// SAFETY: the vector owns its elements. The elements are on the heap, and move only if the vector
// is changed. Any bytes are valid elements, by the contract of `Plain`.
unsafe impl<T: Plain> Buffer for Vec<T> {
    fn memory(&mut self) -> (*mut c_void, usize) {
        (self.as_mut_ptr().cast(), size_of_val(&self[..]))
    }
}

/// Procedure that starts to send a message.
type StartSend = unsafe extern "C" fn(
    *const c_void,
    c_int,
    RealDatatype,
    c_int,
    c_int,
    RealComm,
    *mut RealRequest,
) -> c_int;

/// Other end of a message.
#[derive(Clone, Copy)]
pub struct Peer {
    pub comm: RealComm,
    /// Rank in the communicator, which contains all workers or this process alone.
    pub rank: Worker,
    pub tag: c_int,
}

/// Operations that complete together, with their buffers.
///
/// Buffers are kept if the set is dropped before all operations are complete.
pub struct InFlightSet<B: Buffer> {
    buffers: Vec<B>,
    requests: Vec<RealRequest>,
    /// Statuses of the requests, once all are complete.
    statuses: Vec<Status>,
    /// MPI instance of the requests.
    instance: Generation,
    /// First error of an operation.
    outcome: Result<()>,
}

impl<B: Buffer> Default for InFlightSet<B> {
    fn default() -> InFlightSet<B> {
        InFlightSet {
            buffers: Vec::new(),
            requests: Vec::new(),
            statuses: Vec::new(),
            instance: own_instance(),
            outcome: Ok(()),
        }
    }
}

impl<B: Buffer> InFlightSet<B> {
    /// True if no operation is in flight.
    pub fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// Sends a buffer to these processes.
    ///
    /// # Errors
    /// Fails if the library reports an error; all later operations of the set then fail too.
    pub fn send(&mut self, to: impl IntoIterator<Item = Peer>, buffer: B) -> Result<()> {
        self.start_sends(real::PMPI_Isend, to, buffer)
    }

    /// Sends a buffer; the operation completes only when the receive of the message has started.
    ///
    /// # Errors
    /// The errors are those of [`send`](Self::send).
    pub fn send_synchronous(&mut self, to: Peer, buffer: B) -> Result<()> {
        self.start_sends(real::PMPI_Issend, [to], buffer)
    }

    fn start_sends(
        &mut self,
        procedure: StartSend,
        to: impl IntoIterator<Item = Peer>,
        buffer: B,
    ) -> Result<()> {
        self.start(buffer, |place, bytes, requests| {
            let (count, datatype) = (bytes.count(), bytes.datatype());
            to.into_iter().try_for_each(|to| {
                // SAFETY: `place` has this number of bytes, which are neither moved nor changed
                // before the request is complete: see `start`.
                started(requests, |request| unsafe {
                    let rank = to.rank.0 as c_int;
                    procedure(place, count, datatype, rank, to.tag, to.comm, request)
                })
            })
        })
    }

    /// Posts a receive of at most as many bytes as the buffer has.
    ///
    /// # Errors
    /// The errors are those of [`send`](Self::send).
    pub fn receive(&mut self, from: Peer, buffer: B) -> Result<()> {
        self.start(buffer, |place, bytes, requests| {
            let (count, datatype) = (bytes.count(), bytes.datatype());
            let rank = from.rank.0 as c_int;
            // SAFETY: `place` has room for this number of bytes, which may have any values, and no
            // other code accesses the memory before the request is complete: see `start`.
            started(requests, |request| unsafe {
                real::PMPI_Irecv(place, count, datatype, rank, from.tag, from.comm, request)
            })
        })
    }

    /// Adds a buffer, and calls `begin` to start operations on its memory.
    ///
    /// No other code can access the buffers from then on. [`poll`](Self::poll) returns the buffers
    /// when the requests are complete. If the requests never complete, the buffers are freed only
    /// when all processes have left the MPI instance.
    pub(crate) fn start(
        &mut self,
        mut buffer: B,
        begin: impl FnOnce(*mut c_void, &Bytes, &mut Vec<RealRequest>) -> Result<()>,
    ) -> Result<()> {
        self.check_instance()?;
        let (place, length) = buffer.memory();
        self.buffers.push(buffer);
        self.outcome =
            Bytes::new(length).and_then(|bytes| begin(place, &bytes, &mut self.requests));
        self.outcome
    }

    /// Returns the first error; [`Error::ABANDONED`] for operations of an earlier MPI instance.
    fn check_instance(&mut self) -> Result<()> {
        if self.is_empty() {
            self.instance = own_instance();
        } else if self.instance != own_instance() {
            self.outcome = Err(Error::ABANDONED);
        }
        self.outcome
    }

    /// Returns the buffers, in the order of their addition, if all operations are complete.
    ///
    /// # Errors
    /// The errors are those of [`send`](Self::send).
    pub fn poll(&mut self) -> Result<Option<Vec<B>>> {
        self.check_instance()?;
        let (count, mut flag) = (self.requests.len() as c_int, 0);
        self.statuses.resize(self.requests.len(), Status::default());
        let (first, statuses) = (self.requests.as_mut_ptr(), self.statuses.as_mut_ptr());
        // SAFETY: requests of the present MPI instance that only this set has, and room for their
        // statuses.
        self.outcome = check(unsafe { real::PMPI_Testall(count, first, &mut flag, statuses) });
        self.outcome?;
        if flag == 0 {
            return Ok(None);
        }
        self.outcome = self.statuses.iter().try_for_each(check_not_cancelled);
        self.outcome?;
        self.requests.clear();
        Ok(Some(take(&mut self.buffers)))
    }

    /// Cancels receives; the memory of the receives is kept.
    pub fn cancel(mut self) {
        if self.check_instance().is_err() {
            return;
        }
        for request in &mut self.requests {
            // SAFETY: an active request of the present MPI instance that only this set has. The
            // memory is kept, so the request may also complete without being cancelled.
            unsafe {
                real::PMPI_Cancel(request);
                real::PMPI_Request_free(request);
            }
        }
    }
}

/// Fails for a receive that the library has cancelled.
///
/// This process cancels no receive whose completion it waits for. MPICH completes receives as
/// cancelled if UCX stops them because the sender has failed.
fn check_not_cancelled(status: &Status) -> Result<()> {
    match status.cancelled {
        0 => Ok(()),
        _ => Err(Error::OTHER),
    }
}

/// Adds the request that `call` starts.
pub(crate) fn started(
    requests: &mut Vec<RealRequest>,
    call: impl FnOnce(&mut RealRequest) -> c_int,
) -> Result<()> {
    let mut request = RealRequest(std::ptr::null_mut());
    check(call(&mut request))?;
    requests.push(request);
    Ok(())
}

impl<B: Buffer> Drop for InFlightSet<B> {
    fn drop(&mut self) {
        if !self.is_empty() && self.instance == own_instance() {
            let mut kept = KEPT_MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push((self.instance, Box::new(take(&mut self.buffers))));
        }
    }
}

/// Single operation with its buffer.
pub struct InFlight<B: Buffer>(InFlightSet<B>);

impl<B: Buffer> InFlight<B> {
    /// Sends a buffer.
    ///
    /// # Errors
    /// Fails if the library reports an error, as do all methods below.
    pub fn send(to: Peer, buffer: B) -> Result<InFlight<B>> {
        InFlight::of(|set| set.send([to], buffer))
    }

    /// Posts a receive of at most as many bytes as the buffer has.
    pub fn receive(from: Peer, buffer: B) -> Result<InFlight<B>> {
        InFlight::of(|set| set.receive(from, buffer))
    }

    /// Returns the operation that `start` starts.
    pub(crate) fn of(start: impl FnOnce(&mut InFlightSet<B>) -> Result<()>) -> Result<InFlight<B>> {
        let mut set = InFlightSet::default();
        start(&mut set)?;
        Ok(InFlight(set))
    }

    /// Calls a blocking procedure with the memory of a buffer, and returns the buffer.
    ///
    /// The memory is kept after an error.
    pub(crate) fn block(buffer: B, call: impl FnOnce(*mut c_void) -> c_int) -> Result<B> {
        let mut set = InFlightSet::default();
        set.start(buffer, |place, _, _| check(call(place)))?;
        set.buffers.pop().ok_or(Error::INTERN)
    }

    /// Returns the buffer, once, if the operation is complete.
    pub fn poll(&mut self) -> Result<Option<B>> {
        Ok(self.0.poll()?.and_then(|mut buffers| buffers.pop()))
    }

    /// Polls until the operation is complete, and returns the buffer.
    pub fn wait(mut self) -> Result<B> {
        loop {
            if let Some(buffer) = self.poll()? {
                return Ok(buffer);
            }
        }
    }
}

impl InFlight<Vec<u8>> {
    /// Posts the receive of the next message, if a message has arrived.
    ///
    /// Also returns the sender. `from` is the sender; `None` allows any sender. `comm` must be a
    /// communicator of all workers.
    pub fn receive_arrived(
        comm: RealComm,
        from: Option<Worker>,
        tag: c_int,
    ) -> Result<Option<(Worker, InFlight<Vec<u8>>)>> {
        let source = from.map_or(ANY_SOURCE, |worker| worker.0 as c_int);
        let (mut flag, mut status) = (0, Status::default());
        // SAFETY: a local query, which writes variables of this function.
        check(unsafe { real::PMPI_Iprobe(source, tag, comm, &mut flag, &mut status) })?;
        if flag == 0 {
            return Ok(None);
        }
        let rank = Worker(status.source as u32);
        let message = InFlight::receive(Peer { comm, rank, tag }, vec![0; status.bytes])?;
        Ok(Some((rank, message)))
    }

    /// Receives the bytes of a message that a probe has matched (MPI 4.1, 3.8.3); blocks.
    pub fn receive_matched(message: &mut RealMessage, status: &mut Status) -> Result<Vec<u8>> {
        let bytes = Bytes::new(status.bytes)?;
        let (count, datatype) = (bytes.count(), bytes.datatype());
        // SAFETY: a buffer of the message's size, which is kept after an error.
        let received = InFlight::block(vec![0; status.bytes], |place| unsafe {
            real::PMPI_Mrecv(place, count, datatype, message, status)
        })?;
        check_not_cancelled(status).map(|()| received)
    }

    /// Receives the bytes of a message that `MPI_Iprobe` has found; blocks.
    ///
    /// `status` is that of the probe. No other receive may take the message meanwhile.
    pub fn receive_probed(comm: RealComm, status: &mut Status) -> Result<Vec<u8>> {
        let bytes = Bytes::new(status.bytes)?;
        let (count, datatype) = (bytes.count(), bytes.datatype());
        // SAFETY: a buffer of the message's size, which is kept after an error.
        let received = InFlight::block(vec![0; status.bytes], |place| unsafe {
            real::PMPI_Recv(
                place,
                count,
                datatype,
                status.source,
                status.tag,
                comm,
                status,
            )
        })?;
        check_not_cancelled(status).map(|()| received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::enter_instance;
    use std::sync::Arc;

    struct TestBuffer(#[allow(dead_code)] Arc<()>);

    // SAFETY: the buffer has no memory.
    unsafe impl Buffer for TestBuffer {
        fn memory(&mut self) -> (*mut c_void, usize) {
            (std::ptr::null_mut(), 0)
        }
    }

    fn in_flight(buffer: &Arc<()>) -> InFlightSet<TestBuffer> {
        let mut set = InFlightSet::default();
        set.start(TestBuffer(Arc::clone(buffer)), |_, _, requests| {
            requests.push(RealRequest(std::ptr::null_mut()));
            Ok(())
        })
        .unwrap();
        set
    }

    #[test]
    fn memory_in_flight_is_freed_only_in_another_instance() {
        let (buffer, before) = (Arc::new(()), own_instance());
        let mut late = in_flight(&buffer);
        drop(in_flight(&buffer));
        free_kept();
        assert_eq!(Arc::strong_count(&buffer), 3, "memory in flight was freed");
        enter_instance(Generation(before.0 + 1));
        free_kept();
        assert_eq!(Arc::strong_count(&buffer), 2);
        // There is no library in unit tests, so a call of the library would abort the test.
        assert_eq!(late.poll().err(), Some(Error::ABANDONED));
        late.cancel();
        assert_eq!(Arc::strong_count(&buffer), 1);
        enter_instance(before);
        let mut failed = in_flight(&buffer);
        let second = failed.start(TestBuffer(Arc::default()), |_, _, _| Err(Error::OTHER));
        assert_eq!(second, Err(Error::OTHER));
        assert_eq!(failed.poll().err(), Some(Error::OTHER), "an error is final");
    }
}
