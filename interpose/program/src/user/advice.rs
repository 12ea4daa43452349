//! Attributes of mappings that madvise(2) and mlock(2) set, and guard pages.
//!
//! `/proc/self/smaps` lists the attributes (`VmFlags`, proc_pid_smaps(5)). Reading this file takes
//! long in large processes, so the file is read only if the program has made such calls, or this
//! process has loaded a checkpoint with such attributes. If all calls concern huge pages, the last
//! result is reused until the program makes further calls or changes its mappings.
#![allow(unsafe_code)]

use super::kernel_calls::kernel_calls;
use bincode::{Decode, Encode};
use std::cell::Cell;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use understudy_abi::STUB_PAGE;
use understudy_catalogue::message;
use understudy_image::PAGE_SIZE;
use understudy_image::kernel::{Pagemap, ScanFilter, category};
use understudy_image::layout::{Area, Backing, Layout};
use understudy_image::pages::{self, AddrRange, PageRun};

const MADV_GUARD_INSTALL: i32 = 102;
const MADV_GUARD_REMOVE: i32 = 103;

/// Call that changes an attribute of a range.
#[derive(Clone, Copy)]
enum AttributeCall {
    Advise(i32),
    Lock(u32),
    Unlock,
    /// The kernel has no such call.
    Missing,
}

/// Names of the kernel's flags, and the calls that set and clear them.
const FLAGS: [(&str, AttributeCall, AttributeCall); 8] = [
    (
        "dc",
        AttributeCall::Advise(libc::MADV_DONTFORK),
        AttributeCall::Advise(libc::MADV_DOFORK),
    ),
    (
        "wf",
        AttributeCall::Advise(libc::MADV_WIPEONFORK),
        AttributeCall::Advise(libc::MADV_KEEPONFORK),
    ),
    (
        "dd",
        AttributeCall::Advise(libc::MADV_DONTDUMP),
        AttributeCall::Advise(libc::MADV_DODUMP),
    ),
    (
        "mg",
        AttributeCall::Advise(libc::MADV_MERGEABLE),
        AttributeCall::Advise(libc::MADV_UNMERGEABLE),
    ),
    (
        "hg",
        AttributeCall::Advise(libc::MADV_HUGEPAGE),
        AttributeCall::Missing,
    ),
    (
        "nh",
        AttributeCall::Advise(libc::MADV_NOHUGEPAGE),
        AttributeCall::Missing,
    ),
    ("lo", AttributeCall::Lock(0), AttributeCall::Unlock),
    (
        "lf",
        AttributeCall::Lock(libc::MLOCK_ONFAULT),
        AttributeCall::Missing,
    ),
];

/// Sorted pages that have a flag, for each flag in the order of [`FLAGS`].
///
/// Empty if no call has set one of the flags.
type FlaggedPages = Vec<Vec<PageRun>>;

/// Attributes at a cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct MappingAttributes {
    flagged: FlaggedPages,
    guards: Vec<PageRun>,
}

/// Last reading of `/proc/self/smaps`, and the conditions under which the file is read again.
pub(super) struct SmapsCache {
    /// True if a loaded checkpoint contains attributes.
    ///
    /// Another process made the calls that set these attributes, so this process has not counted
    /// them.
    has_loaded: Cell<bool>,
    last: Cell<Option<SmapsReading>>,
}

struct SmapsReading {
    calls: u32,
    layout: Layout,
    flagged: FlaggedPages,
}

impl SmapsCache {
    /// State at the start of the process.
    pub(super) const fn new() -> SmapsCache {
        SmapsCache {
            has_loaded: Cell::new(false),
            last: Cell::new(None),
        }
    }

    /// True if the kernel reports guard pages.
    pub(super) fn can_report_guards(&self) -> bool {
        static ANSWER: OnceLock<bool> = OnceLock::new();
        *ANSWER.get_or_init(kernel_reports_guards)
    }

    /// Reads the attributes of the program's mappings.
    pub(super) fn capture(&self, layout: &Layout) -> MappingAttributes {
        let has_loaded = self.has_loaded.get();
        let calls = kernel_calls();
        let count = |counter: &AtomicU32| counter.load(Ordering::Relaxed);
        let flagged = match (count(&calls.advice), count(&calls.huge_pages)) {
            (0, 0) if !has_loaded => Vec::new(),
            (0, count) if !has_loaded => self.flagged_cached(layout, count),
            _ => flagged(layout),
        };
        let guards = match has_loaded || count(&calls.guards) > 0 || libc_has_guards() {
            true => guards(layout).unwrap_or_default(),
            false => Vec::new(),
        };
        MappingAttributes { flagged, guards }
    }

    /// Sets the attributes of the cut; called after the pages have been loaded.
    pub(super) fn restore(&self, saved: &MappingAttributes, layout: &Layout) {
        self.last.set(None);
        let now = self.capture(layout);
        let is_any = |saved: &MappingAttributes| {
            !saved.guards.is_empty() || saved.flagged.iter().any(|it| !it.is_empty())
        };
        self.has_loaded.set(self.has_loaded.get() || is_any(saved));
        let none = vec![Vec::new(); FLAGS.len()];
        let [then, now_flagged] =
            [&saved.flagged, &now.flagged].map(|it| if it.is_empty() { &none } else { it });
        for (flag, (then, now)) in FLAGS.iter().zip(then.iter().zip(now_flagged)) {
            let (name, set, clear) = *flag;
            apply(name, clear, &pages::subtract(now, then));
            apply(name, set, &pages::subtract(then, now));
        }
        let guard =
            |advice, pages: &[PageRun]| apply("guard pages", AttributeCall::Advise(advice), pages);
        guard(
            MADV_GUARD_REMOVE,
            &pages::subtract(&now.guards, &saved.guards),
        );
        guard(MADV_GUARD_INSTALL, &saved.guards);
    }

    fn flagged_cached(&self, layout: &Layout, calls: u32) -> FlaggedPages {
        let last = self.last.take();
        let reading = last.filter(|it| it.calls == calls && it.layout == *layout);
        let reading = reading.unwrap_or_else(|| SmapsReading {
            calls,
            layout: layout.clone(),
            flagged: flagged(layout),
        });
        let flagged = reading.flagged.clone();
        self.last.set(Some(reading));
        flagged
    }
}

fn apply(name: &str, call: AttributeCall, pages: &[PageRun]) {
    for run in pages {
        let range = run.range();
        let (at, length) = (range.start as *mut libc::c_void, range.len() as usize);
        // SAFETY: the advice concerns memory of the program, whose threads are stopped.
        let rc = unsafe {
            match call {
                AttributeCall::Advise(advice) => libc::madvise(at, length, advice),
                AttributeCall::Lock(0) => libc::mlock(at, length),
                AttributeCall::Lock(flags) => libc::mlock2(at, length, flags),
                AttributeCall::Unlock => libc::munlock(at, length),
                AttributeCall::Missing => 0,
            }
        };
        if rc != 0 {
            log::warn!(
                "{}",
                message::mapping_attribute_not_restored(name, range, io::Error::last_os_error())
            );
        }
    }
}

fn flagged(layout: &Layout) -> FlaggedPages {
    let text = std::fs::read("/proc/self/smaps").unwrap_or_default();
    let own = pages::normalise(areas(layout).map(|area| area.pages()).collect());
    let all = parse(&text).into_iter();
    all.map(|pages| pages::intersect(&pages, &own)).collect()
}

/// Returns the program's areas except the stack.
fn areas(layout: &Layout) -> impl Iterator<Item = &Area> {
    let all = layout.areas().iter();
    all.filter(|area| area.backing != Backing::Stack)
}

/// Returns the pages that have each flag, for all mappings.
fn parse(text: &[u8]) -> FlaggedPages {
    let mut flagged = vec![Vec::new(); FLAGS.len()];
    let mut current = None;
    for line in text.split(|&byte| byte == b'\n') {
        let Some(flags) = line.strip_prefix(b"VmFlags:") else {
            current = range(line).or(current);
            continue;
        };
        let Some(range) = current.take() else {
            continue;
        };
        for flag in flags.split(|&byte| byte == b' ') {
            let is_it = |(name, ..): &(&str, AttributeCall, AttributeCall)| name.as_bytes() == flag;
            if let Some(place) = FLAGS.iter().position(is_it) {
                flagged[place].push(AddrRange::pages(range));
            }
        }
    }
    flagged.into_iter().map(pages::normalise).collect()
}

/// Parses the address range at the start of a mapping's first line.
fn range(line: &[u8]) -> Option<AddrRange> {
    let text = line.split(|&byte| byte == b' ').next()?;
    let (start, end) = std::str::from_utf8(text).ok()?.split_once('-')?;
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    Some(AddrRange::new(number(start)?, number(end)?))
}

/// True if the C library may have installed guard pages below stacks of threads.
///
/// glibc 2.42 and later do so, with MADV_GUARD_INSTALL.
fn libc_has_guards() -> bool {
    // SAFETY: gnu_get_libc_version(3) returns a string that lives as long as the process.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    let minor = version
        .to_str()
        .ok()
        .and_then(|text| text.strip_prefix("2."));
    let minor = minor.and_then(|text| text.split('.').next()?.parse::<u32>().ok());
    crate::process_info::created_threads() > 0 && minor.is_some_and(|minor| minor >= 42)
}

const GUARDS: ScanFilter = ScanFilter {
    all: category::GUARD,
    any: 0,
    report: category::GUARD,
};

/// True if the kernel's scan of pages can select guard pages ([`category::GUARD`]).
fn kernel_reports_guards() -> bool {
    let page = AddrRange::new(STUB_PAGE as u64, STUB_PAGE as u64 + PAGE_SIZE as u64);
    let scan = |mut pagemap: Pagemap| pagemap.scan(page, GUARDS, &mut Vec::new());
    Pagemap::open().and_then(scan).is_ok()
}

/// Finds guard pages of the program.
///
/// # Errors
/// Fails if the kernel does not report guard pages, as before Linux 6.15.
fn guards(layout: &Layout) -> io::Result<Vec<PageRun>> {
    let mut pagemap = Pagemap::open()?;
    let mut regions = Vec::new();
    for area in areas(layout) {
        pagemap.scan(area.range, GUARDS, &mut regions)?;
    }
    Ok(pages::normalise(
        regions.iter().map(|region| region.pages()).collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_state::MAPPINGS;

    #[test]
    fn flags_are_those_of_the_table() {
        for (name, ..) in FLAGS {
            assert!(MAPPINGS.iter().any(|row| row.name == name), "{name}");
        }
    }

    #[test]
    fn flagged_pages_are_parsed() {
        let text = b"1000-3000 rw-p 00000000 00:00 0 \nRss: 8 kB\nVmFlags: rd wr dc wf \n\
            3000-4000 rw-p 00000000 00:00 0    [heap]\nVmFlags: rd wr dc\n\
            5000-6000 rw-p 00000000 00:00 0    [stack]\nVmFlags: rd wr\n";
        let flagged = parse(text);
        let run = |start, end| AddrRange::new(start, end).pages();
        assert_eq!(flagged[0], [run(0x1000, 0x4000)]);
        assert_eq!(flagged[1], [run(0x1000, 0x3000)]);
        assert!(flagged[2..].iter().all(Vec::is_empty));
    }
}
