//! Flags of mappings: `VmFlags` of `/proc/self/smaps` (proc_pid_smaps(5)).

use super::row::Handling::{self, Differs, Equal, Refused, Restored};
use super::row::Row;

const fn row(name: &'static str, handling: Handling) -> Row {
    Row {
        name,
        handling,
        test: "",
    }
}

/// Row of a flag that madvise(2) or mlock(2) sets.
const fn advice(name: &'static str) -> Row {
    Row {
        name,
        handling: Restored,
        test: "programs_table::memory_advice",
    }
}

const TAGS: Handling = Refused("memory tags (MTE) are not part of the content");
const DEVICE: Handling = Refused("it is memory of a device, of the kernel or of a pool");

pub const MAPPINGS: &[Row] = &[
    row("rd", Restored),
    row("wr", Restored),
    row("ex", Restored),
    row("sh", Restored),
    row("mr", Equal),
    row("mw", Equal),
    row("me", Equal),
    row("ms", Equal),
    row("gd", Equal),
    row("ac", Equal),
    row("sd", Equal),
    row("um", Equal),
    row("uw", Equal),
    row("ui", Equal),
    row("mm", Equal),
    row(
        "nr",
        Differs("memory that is mapped again is not reserved (MAP_NORESERVE)"),
    ),
    row("sr", Equal),
    row("rr", Equal),
    row("gu", Restored),
    row("sl", Equal),
    row("dp", Equal),
    advice("dc"),
    advice("wf"),
    advice("dd"),
    advice("hg"),
    advice("nh"),
    advice("mg"),
    advice("lo"),
    row("lf", Restored),
    row("pf", DEVICE),
    row("io", DEVICE),
    row("de", DEVICE),
    row("ht", DEVICE),
    row(
        "ss",
        Refused("shadow stacks of threads are kept by the kernel"),
    ),
    row("mt", TAGS),
    row("bt", Equal),
    row("nl", Equal),
];
