//! Reports to the runtime which parts of open files the program is about to overwrite.
//!
//! Most writes need no report, because they append to a file, or write to a new file or to no
//! regular file. To recognise them without a system call, this module stores the size of the file
//! at the first write to each descriptor since the cut ([`DescriptorFacts`]). Bytes from that size
//! on did not exist at the cut, or the runtime saved them when the file was truncated. Only writes
//! that begin before that size are reported.
//!
//! libc's streams write by internal calls through tables of functions. This module replaces the
//! function that writes in each table.
#![allow(unsafe_code)]

use crate::effect_reports::{report, reporting_functions};
use crate::libc::next;
use crate::messages::print;
use crate::recorded_process::{self, descriptor_facts};
use crate::sys::{self, nr, sys};
use crate::{stop, threads};
use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use understudy_abi::descriptor_facts::{DescriptorFact, DescriptorFacts};
use understudy_abi::effect::{self, FilePart};
use understudy_catalogue::message;

/// libc's function with which streams write.
static STREAM_WRITE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// Stands for the descriptor's current position as the offset of a write.
const CURRENT_POSITION: i64 = -1;
/// Length of a part that extends to the end of the file.
const TO_FILE_END: usize = isize::MAX as usize;

unsafe extern "C" {
    fn fileno(stream: *mut c_void) -> c_int;
}

/// Makes writes report to the runtime from now on.
pub fn connect(facts: *const DescriptorFacts) {
    replace_stream_writes();
    // SAFETY: a write of no bytes to no descriptor. Its purpose is to look up libc's function now,
    // because the first write of the program may be made in a signal handler, where dlsym(3) must
    // not be called.
    unsafe { write(-1, core::ptr::null(), 0) };
    recorded_process::connect(facts);
}

/// Discards the facts about a descriptor, which has been closed or changed.
pub fn forget(fd: c_int) {
    if let Some(facts) = descriptor_facts() {
        facts.set(fd, DescriptorFact::Unknown);
    }
}

/// Returns true if the runtime waits for the report that a call has returned.
pub fn is_name_awaited() -> bool {
    descriptor_facts().is_some_and(DescriptorFacts::is_name_awaited)
}

/// Records a new descriptor of the program.
pub fn record_descriptor(fd: c_int) {
    if let Some(facts) = descriptor_facts() {
        facts.record_new(fd);
    }
}

/// Records the descriptor of a new stream of the program.
///
/// # Safety
/// `stream` must be a stream of libc, or null.
pub unsafe fn record_stream(stream: *mut c_void) {
    if !stream.is_null() && descriptor_facts().is_some() {
        // SAFETY: the caller guarantees that `stream` is a stream of libc or null.
        record_descriptor(unsafe { fileno(stream) });
    }
}

/// Queries the facts about a descriptor.
fn query_descriptor(fd: c_int) -> DescriptorFact {
    const F_GETFL: usize = 3;
    const O_ACCMODE: isize = 0o3;
    const O_APPEND: isize = 0o2000;
    const O_PATH: isize = 0o10_000_000;
    const S_IFMT: u32 = 0o170_000;
    const S_IFREG: u32 = 0o100_000;
    let mut stat = [0u64; 18];
    // SAFETY: fstat(2) fills a structure of this size; F_GETFL of fcntl(2) accesses no memory.
    let (result, flags) = unsafe {
        (
            sys!(nr::FSTAT, fd, stat.as_mut_ptr()),
            sys!(nr::FCNTL, fd, F_GETFL),
        )
    };
    let is_for_writing = flags >= 0 && flags & O_ACCMODE != 0 && flags & (O_APPEND | O_PATH) == 0;
    // Words of the structure: number of names, mode, and size.
    let (names, mode, size) = (stat[2], stat[3] as u32, stat[6] as i64);
    // Writes to a file without a name need no report: a checkpoint contains the whole file.
    if result != 0 || !is_for_writing || names == 0 || mode & S_IFMT != S_IFREG {
        return DescriptorFact::Unreported;
    }
    DescriptorFact::File(size)
}

/// Returns the position of a descriptor.
fn position(fd: c_int) -> i64 {
    const SEEK_CUR: usize = 1;
    // SAFETY: lseek(2) that moves nothing.
    unsafe { sys!(nr::LSEEK, fd, 0, SEEK_CUR) as i64 }
}

/// Reports a write of `length` bytes to a descriptor, if necessary.
///
/// `offset` is the position in the file, or [`CURRENT_POSITION`].
///
/// Returns true if the calling thread must be unblocked after the write ([`threads::block_stops`]).
#[inline]
fn report_write(fd: c_int, offset: i64, length: usize) -> bool {
    match descriptor_facts() {
        Some(facts) if facts.get(fd) != DescriptorFact::Unreported => {
            report_file_write(facts, fd, offset, length)
        }
        _ => false,
    }
}

fn report_file_write(facts: &DescriptorFacts, fd: c_int, offset: i64, length: usize) -> bool {
    if facts.get(fd) == DescriptorFact::Unknown
        && query_descriptor(fd) == DescriptorFact::Unreported
    {
        facts.set(fd, DescriptorFact::Unreported);
        return false;
    }
    // While stops are blocked, no cut can be taken. A cut may have been taken since the first
    // query of the facts, and have discarded the facts, so they are queried again.
    let is_blocked = threads::block_stops();
    if facts.get(fd) == DescriptorFact::Unknown {
        facts.set(fd, query_descriptor(fd));
    }
    let DescriptorFact::File(size) = facts.get(fd) else {
        return is_blocked;
    };
    if size == 0 || length == 0 {
        return is_blocked;
    }
    let offset = if offset < 0 { position(fd) } else { offset };
    if offset < 0 || offset >= size {
        return is_blocked;
    }
    report_part(effect::OVERWRITE, fd, offset, length) || is_blocked
}

/// Reports that a part of a file is about to be overwritten.
fn report_part(kind: u32, fd: c_int, offset: i64, length: usize) -> bool {
    let part = FilePart {
        offset: offset.max(0) as u64,
        length: length as u64,
    };
    // SAFETY: no string is passed; the part is in this frame.
    unsafe { report(kind, fd, core::ptr::null(), (&raw const part) as i64) }
}

/// Reports a mapping of a file, which permits overwriting it.
///
/// The whole file is reported, because the program may obtain write access or a greater length
/// later (mprotect(2), mremap(2)).
pub fn report_mapping(flags: c_int, fd: c_int) -> bool {
    const MAP_SHARED: c_int = 1;
    const MAP_ANONYMOUS: c_int = 0x20;
    let is_shared_file = flags & MAP_SHARED != 0 && flags & MAP_ANONYMOUS == 0 && fd >= 0;
    is_shared_file
        && descriptor_facts().is_some()
        && query_descriptor(fd) != DescriptorFact::Unreported
        && report_part(effect::OVERWRITE_BY_MAPPING, fd, 0, TO_FILE_END)
}

/// Reports fallocate(2) in a mode that changes existing bytes.
fn report_fallocate(fd: c_int, mode: c_int, offset: i64, length: i64) -> bool {
    const PUNCH_HOLE: c_int = 0x02;
    const COLLAPSE_RANGE: c_int = 0x08;
    const ZERO_RANGE: c_int = 0x10;
    const INSERT_RANGE: c_int = 0x20;
    if descriptor_facts().is_none() {
        false
    } else if mode & (COLLAPSE_RANGE | INSERT_RANGE) != 0 {
        report_part(effect::OVERWRITE, fd, offset, TO_FILE_END)
    } else {
        mode & (PUNCH_HOLE | ZERO_RANGE) != 0
            && report_part(effect::OVERWRITE, fd, offset, length.max(0) as usize)
    }
}

/// Reports a write of several buffers, with the flags of pwritev2(2).
///
/// With RWF_NOAPPEND, the call writes at its offset in spite of O_APPEND.
///
/// # Safety
/// `buffers` must be null or point to `count` structures.
pub unsafe fn report_vector(
    fd: c_int,
    buffers: *const Buffer,
    count: c_int,
    offset: i64,
    flags: c_int,
) -> bool {
    const RWF_APPEND: c_int = 0x10;
    const RWF_NOAPPEND: c_int = 0x20;
    // SAFETY: the caller guarantees that `buffers` is null or points to `count` structures.
    let length = || unsafe { total_length(buffers, count) };
    if flags & RWF_NOAPPEND != 0 && offset >= 0 && descriptor_facts().is_some() {
        return report_part(effect::OVERWRITE, fd, offset, length());
    }
    flags & RWF_APPEND == 0 && report_write(fd, offset, length())
}

/// `struct iovec`.
#[repr(C)]
pub struct Buffer {
    pub start: *const c_void,
    pub length: usize,
}

/// Returns the total length of all buffers, or zero if no write needs a report.
///
/// # Safety
/// `buffers` must be null or point to `count` structures.
unsafe fn total_length(buffers: *const Buffer, count: c_int) -> usize {
    if buffers.is_null() || descriptor_facts().is_none() {
        return 0;
    }
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the caller guarantees that `buffers`, which is not null, points to `count`
    // structures.
    let buffers = unsafe { core::slice::from_raw_parts(buffers, count) };
    buffers
        .iter()
        .fold(0usize, |sum, buffer| sum.saturating_add(buffer.length))
}

/// Reads an offset that is passed by address; [`CURRENT_POSITION`] for a null pointer.
///
/// # Safety
/// `offset` must be null or valid.
unsafe fn offset_at(offset: *const i64) -> i64 {
    // SAFETY: the caller guarantees that `offset` is null or valid.
    unsafe { offset.as_ref() }.map_or(CURRENT_POSITION, |offset| *offset)
}

/// Reports aio_write(3).
///
/// # Safety
/// `block` must be null or a control block.
unsafe fn report_aio(block: *const AioBlock) -> bool {
    // SAFETY: the caller guarantees that `block` is null or a control block.
    unsafe { block.as_ref() }
        .is_some_and(|block| report_write(block.fd, block.offset.max(0), block.length))
}

/// Reports lio_listio(3).
///
/// # Safety
/// `list` must have `count` addresses, which are null or of control blocks.
unsafe fn report_aio_list(list: *const *mut AioBlock, count: c_int) -> bool {
    const LIO_WRITE: c_int = 1;
    let mut is_blocked = false;
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the caller guarantees that `list` has `count` addresses, each null or of a
        // control block.
        unsafe {
            let block = list.add(index).read().cast_const();
            if block
                .as_ref()
                .is_some_and(|block| block.operation == LIO_WRITE)
            {
                is_blocked |= report_aio(block);
            }
        }
    }
    is_blocked
}

/// `struct aiocb` of glibc on x86-64.
#[repr(C)]
pub struct AioBlock {
    fd: c_int,
    operation: c_int,
    priority: c_int,
    buffer: *const c_void,
    length: usize,
    /// Members that this module does not use.
    other: [u64; 12],
    offset: i64,
}

const _: () = assert!(core::mem::offset_of!(AioBlock, offset) == 128);

/// Records that fcntl(2) has created a descriptor or changed its flags.
fn after_fcntl(fd: c_int, command: c_int, result: c_int) {
    const F_DUPFD: c_int = 0;
    const F_SETFL: c_int = 4;
    const F_DUPFD_CLOEXEC: c_int = 1030;
    match command {
        F_DUPFD | F_DUPFD_CLOEXEC => record_descriptor(result),
        F_SETFL => forget(fd),
        _ => {}
    }
}

type Bytes = *const c_void;
type Buffers = *const Buffer;
type AioBlocks = *const *mut AioBlock;

reporting_functions! {
    fn write(fd: c_int, bytes: Bytes, length: usize) -> isize {
        report_write(fd, CURRENT_POSITION, length)
    }
    fn __write(fd: c_int, bytes: Bytes, length: usize) -> isize {
        report_write(fd, CURRENT_POSITION, length)
    }
    fn pwrite(fd: c_int, bytes: Bytes, length: usize, offset: i64) -> isize {
        report_write(fd, offset, length)
    }
    fn pwrite64(fd: c_int, bytes: Bytes, length: usize, offset: i64) -> isize {
        report_write(fd, offset, length)
    }
    fn __pwrite64(fd: c_int, bytes: Bytes, length: usize, offset: i64) -> isize {
        report_write(fd, offset, length)
    }
    fn writev(fd: c_int, buffers: Buffers, count: c_int) -> isize {
        report_vector(fd, buffers, count, CURRENT_POSITION, 0)
    }
    fn pwritev(fd: c_int, buffers: Buffers, count: c_int, offset: i64) -> isize {
        report_vector(fd, buffers, count, offset, 0)
    }
    fn pwritev64(fd: c_int, buffers: Buffers, count: c_int, offset: i64) -> isize {
        report_vector(fd, buffers, count, offset, 0)
    }
    fn pwritev2(fd: c_int, buffers: Buffers, count: c_int, offset: i64, flags: c_int) -> isize {
        report_vector(fd, buffers, count, offset, flags)
    }
    fn pwritev64v2(fd: c_int, buffers: Buffers, count: c_int, offset: i64, flags: c_int) -> isize {
        report_vector(fd, buffers, count, offset, flags)
    }
    fn sendfile(to: c_int, from: c_int, offset: *mut i64, length: usize) -> isize {
        report_write(to, CURRENT_POSITION, length)
    }
    fn sendfile64(to: c_int, from: c_int, offset: *mut i64, length: usize) -> isize {
        report_write(to, CURRENT_POSITION, length)
    }
    fn copy_file_range(
        from: c_int, start: *mut i64, to: c_int, offset: *mut i64, length: usize, flags: c_uint
    ) -> isize {
        report_write(to, offset_at(offset), length)
    }
    fn splice(
        from: c_int, start: *mut i64, to: c_int, offset: *mut i64, length: usize, flags: c_uint
    ) -> isize {
        report_write(to, offset_at(offset), length)
    }
    fn fallocate(fd: c_int, mode: c_int, offset: i64, length: i64) -> c_int {
        report_fallocate(fd, mode, offset, length)
    }
    fn fallocate64(fd: c_int, mode: c_int, offset: i64, length: i64) -> c_int {
        report_fallocate(fd, mode, offset, length)
    }
    fn aio_write(block: *mut AioBlock) -> c_int { report_aio(block) }
    fn aio_write64(block: *mut AioBlock) -> c_int { report_aio(block) }
    fn lio_listio(mode: c_int, list: AioBlocks, count: c_int, event: *mut c_void) -> c_int {
        report_aio_list(list, count)
    }
    fn lio_listio64(mode: c_int, list: AioBlocks, count: c_int, event: *mut c_void) -> c_int {
        report_aio_list(list, count)
    }

    fn dup(fd: c_int) -> c_int { false } => record_descriptor;
    fn dup2(fd: c_int, other: c_int) -> c_int { false } => record_descriptor;
    fn dup3(fd: c_int, other: c_int, flags: c_int) -> c_int { false } => record_descriptor;
    fn fcntl(fd: c_int, command: c_int, value: usize) -> c_int {
        false
    } => |result| after_fcntl(fd, command, result);
    fn fcntl64(fd: c_int, command: c_int, value: usize) -> c_int {
        false
    } => |result| after_fcntl(fd, command, result);
}

/// Write function of streams, in place of libc's `_IO_file_write`.
unsafe extern "C" fn stream_write(
    stream: *mut c_void,
    bytes: *const c_void,
    length: isize,
) -> isize {
    // SAFETY: libc calls this function with a valid stream and buffer; `replace_stream_writes` has
    // stored libc's function of this type.
    unsafe {
        let is_blocked = report_write(fileno(stream), CURRENT_POSITION, length.max(0) as usize);
        let real: unsafe extern "C" fn(*mut c_void, *const c_void, isize) -> isize =
            core::mem::transmute(STREAM_WRITE.load(Ordering::Relaxed));
        let result = real(stream, bytes, length);
        if is_blocked {
            stop::unblock();
        }
        result
    }
}

/// Replaces the function with which libc's streams write to descriptors.
///
/// libc has one table for narrow and one for wide streams.
fn replace_stream_writes() {
    /// Index of the function in the tables (libio of glibc: `struct _IO_jump_t`).
    const WRITE: usize = 15;
    const PAGE: usize = 4096;
    const READ_ONLY: usize = 1;
    const READ_WRITE: usize = 3;
    static TABLES: [AtomicPtr<c_void>; 2] = [const { AtomicPtr::new(core::ptr::null_mut()) }; 2];
    let real = next(&STREAM_WRITE, c"_IO_file_write");
    for (table, name) in TABLES.iter().zip([c"_IO_file_jumps", c"_IO_wfile_jumps"]) {
        let entry = next(table, name).cast::<*mut c_void>().wrapping_add(WRITE);
        let page = entry as usize / PAGE * PAGE;
        // SAFETY: the word belongs to libc's table; libc only reads it, and both of its values are
        // valid functions.
        unsafe {
            if *entry != real || sys::protect(page, PAGE, READ_WRITE).is_err() {
                print(&message::STREAMS_UNKNOWN);
                return;
            }
            *entry = stream_write as *mut c_void;
            let _ = sys::protect(page, PAGE, READ_ONLY);
        }
    }
}
