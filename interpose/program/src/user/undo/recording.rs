//! Recording of effects on files before they happen.
#![allow(unsafe_code)]

use super::caller::Caller;
use super::file_call::FileCall;
use super::overwrite::Source;
use super::recorder::Recorder;
use crate::role;
use crate::user::files::last_name_of;
use crate::user::lowered_limits::TemporaryFileLimit;
use crate::user::program_runtime::Runtime;
use std::ffi::{CStr, c_char, c_int};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use understudy_abi::descriptor_facts::DescriptorFacts;
use understudy_abi::effect;
use understudy_policy::ranges::ByteRange;

/// The program's descriptors, as recorded by the preload library.
pub(super) static WRITTEN: DescriptorFacts = DescriptorFacts::new();

/// Returns the data about written files that preload library and runtime share.
pub fn written() -> &'static DescriptorFacts {
    &WRITTEN
}

/// Records an effect on files that is about to happen.
///
/// # Safety
/// The strings must be valid or null.
pub unsafe fn file_effect(
    rt: &Runtime,
    kind: u32,
    directory: c_int,
    path: *const c_char,
    other_directory: c_int,
    other: *const c_char,
    value: i64,
) {
    if !is_recording(rt) {
        return;
    }
    // SAFETY: the caller guarantees that a string that is not null is valid.
    let string = |name: *const c_char| (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) });
    let names = [(directory, string(path)), (other_directory, string(other))];
    match kind {
        effect::NAME_CREATED => record_created(rt),
        effect::FTRUNCATE => on_open(rt, directory, |recorder| {
            recorder.truncate_open(directory, value.max(0) as u64)
        }),
        effect::ATTRIBUTE => {
            if let Some(path) = Caller::own().attributed(names, value) {
                with_recorder(rt, &path, |recorder| {
                    recorder.change_attribute(&path, names[1].1)
                });
            }
        }
        _ => {
            if let Some(call) = Caller::own().call(kind, names, value) {
                record_call(rt, &call);
            }
        }
    }
}

/// Records that a range of an open file is about to be overwritten.
///
/// The cause is a write, or a mapping if `is_mapped` is true.
pub fn record_overwriting(rt: &Runtime, fd: c_int, range: &effect::FilePart, is_mapped: bool) {
    on_open(rt, fd, |recorder| {
        recorder.overwrite_open(fd, (range.offset, range.length), is_mapped)
    });
}

/// Lets the recorder record an effect on an open file, if effects are recorded.
fn on_open(rt: &Runtime, fd: c_int, act: impl FnOnce(&mut Recorder) -> io::Result<()>) {
    let _raised = TemporaryFileLimit::new();
    if is_recording(rt)
        && let Some(recorder) = &mut *rt.undo.recorder.borrow_mut()
        && let Err(error) = act(recorder)
    {
        let path = fs::read_link(format!("/proc/self/fd/{fd}")).unwrap_or_default();
        recorder.warn(&path, &error.to_string());
    }
}

/// True if effects are recorded.
///
/// False in a child that the program has forked, which has a copy of the recorder.
fn is_recording(rt: &Runtime) -> bool {
    let is_of_this_process =
        |recorder: &Recorder| recorder.is_on() && recorder.process() == std::process::id();
    (role::is_protected() || rt.undo.early.get())
        && rt
            .undo
            .recorder
            .borrow()
            .as_ref()
            .is_some_and(is_of_this_process)
}

/// Records a call that understudy is about to make for the program.
///
/// [`record_created`] must be called after the call has been made.
pub fn record_call(rt: &Runtime, call: &FileCall) {
    with_recorder(rt, call.path(), |recorder| {
        let result = recorder.record_call(call);
        WRITTEN.await_name(recorder.awaits_name());
        result
    });
}

/// Records that the last recorded call has been made.
pub fn record_created(rt: &Runtime) {
    with_recorder(rt, Path::new("a new file"), |recorder| {
        let result = recorder.name_created();
        WRITTEN.await_name(recorder.awaits_name());
        result
    });
}

/// Records ranges of an open file of the program that understudy is about to write.
pub fn record_range_overwriting(rt: &Runtime, file: &File, ranges: &[ByteRange]) {
    let name = || last_name_of(file);
    if is_recording(rt)
        && let Some(recorder) = &mut *rt.undo.recorder.borrow_mut()
        && let Err(error) = recorder.overwrite(name, Source::Readable(file), ranges)
    {
        recorder.warn(&name(), &error.to_string());
    }
}

/// Lets the recorder record an effect on this path, if effects are recorded.
pub(super) fn with_recorder(
    rt: &Runtime,
    path: &Path,
    act: impl FnOnce(&mut Recorder) -> io::Result<()>,
) {
    let _raised = TemporaryFileLimit::new();
    if is_recording(rt)
        && let Some(recorder) = &mut *rt.undo.recorder.borrow_mut()
        && let Err(error) = act(recorder)
    {
        recorder.warn(path, &error.to_string());
    }
}
