//! Contexts of kernel AIO (io_setup(2)) of the program.
//!
//! The kernel does not report the number of pending requests. The preload library counts submitted
//! requests, and the runtime subtracts the completed ones, which the context's ring shows.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// `struct iocb` of `linux/aio_abi.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct AioRequest {
    /// Value that is returned with the event.
    pub data: u64,
    /// Key that the kernel writes.
    pub key: u32,
    /// Flags of pwritev2(2).
    pub flags: i32,
    pub operation: u16,
    /// Priority of the request (ioprio_set(2)).
    pub priority: i16,
    /// Descriptor of the file.
    pub fd: i32,
    /// Address of the buffer, or of an array of `struct iovec`.
    pub buffer: u64,
    /// Length of the buffer in bytes, or number of elements of the array.
    pub length: u64,
    /// Offset in the file in bytes.
    pub offset: i64,
    pub reserved: u64,
    /// Flags of the notification (`IOCB_FLAG_…`).
    pub notice: u32,
    /// Descriptor that is notified.
    pub eventfd: u32,
}

const _: () = assert!(size_of::<AioRequest>() == 64);

/// Maximum number of contexts that exist together.
pub const MAX_CONTEXTS: usize = 64;

/// Address in a slot that is being filled.
const RESERVED: usize = usize::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AioContext {
    /// Address of the context's ring, which is the context's identifier.
    pub address: usize,
    /// Number of requests for which the context was created.
    pub requests: u32,
    /// Number of submitted requests.
    pub submitted: u64,
}

#[derive(Debug)]
struct Slot {
    /// Zero if the slot is free.
    address: AtomicUsize,
    requests: AtomicU32,
    submitted: AtomicU64,
}

impl Slot {
    const fn free() -> Slot {
        Slot {
            address: AtomicUsize::new(0),
            requests: AtomicU32::new(0),
            submitted: AtomicU64::new(0),
        }
    }

    fn context(&self) -> Option<AioContext> {
        let address = self.address.load(Ordering::Acquire);
        (address != 0 && address != RESERVED).then(|| AioContext {
            address,
            requests: self.requests.load(Ordering::Relaxed),
            submitted: self.submitted.load(Ordering::Relaxed),
        })
    }
}

/// Contexts that the program has created with syscall(2).
///
/// The runtime refuses to protect a program with a context that is missing in this table.
#[derive(Debug)]
pub struct AioContexts {
    slots: [Slot; MAX_CONTEXTS],
}

impl AioContexts {
    #[expect(clippy::new_without_default, reason = "a constant is needed")]
    pub const fn new() -> AioContexts {
        AioContexts {
            slots: [const { Slot::free() }; MAX_CONTEXTS],
        }
    }

    pub fn all(&self) -> impl Iterator<Item = AioContext> {
        self.slots.iter().filter_map(Slot::context)
    }

    fn slot(&self, address: usize) -> Option<&Slot> {
        let has_address = |slot: &&Slot| slot.address.load(Ordering::Acquire) == address;
        self.slots.iter().find(has_address).filter(|_| address != 0)
    }

    /// Returns the context with this identifier.
    pub fn find(&self, address: usize) -> Option<AioContext> {
        self.slot(address)?.context()
    }

    /// Adds a context, and removes an earlier context with this address.
    ///
    /// A context for which there is no slot is not added.
    pub fn insert(&self, context: AioContext) {
        self.remove(context.address);
        let reserve = |slot: &&Slot| {
            let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
            let exchange = slot.address.compare_exchange(0, RESERVED, acquire, relaxed);
            exchange.is_ok()
        };
        if let Some(slot) = self.slots.iter().find(reserve) {
            slot.requests.store(context.requests, Ordering::Relaxed);
            slot.submitted.store(context.submitted, Ordering::Relaxed);
            slot.address.store(context.address, Ordering::Release);
        }
    }

    /// Adds a number of submitted requests to a context's count.
    pub fn submit(&self, address: usize, count: u64) {
        if let Some(slot) = self.slot(address) {
            slot.submitted.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub fn remove(&self, address: usize) {
        if let Some(slot) = self.slot(address) {
            slot.address.store(0, Ordering::Release);
        }
    }

    pub fn clear(&self) {
        for slot in &self.slots {
            slot.address.store(0, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_for_their_context() {
        let contexts = AioContexts::new();
        let context = |address, submitted| AioContext {
            address,
            requests: 8,
            submitted,
        };
        contexts.insert(context(0x1000, 0));
        contexts.insert(context(0x2000, 5));
        contexts.submit(0x1000, 3);
        contexts.submit(0x2000, 1);
        contexts.submit(0x3000, 1);
        contexts.submit(0, 1);
        assert!(contexts.all().eq([context(0x1000, 3), context(0x2000, 6)]));
        contexts.insert(context(0x1000, 0));
        assert_eq!(contexts.find(0x1000), Some(context(0x1000, 0)));
        contexts.remove(0x1000);
        assert_eq!(contexts.find(0x1000), None);
        contexts.clear();
        assert_eq!(contexts.all().count(), 0);
        for address in 1..=MAX_CONTEXTS + 1 {
            contexts.insert(context(address, 0));
        }
        assert_eq!(contexts.all().count(), MAX_CONTEXTS);
    }
}
