//! Who talked to whom, and what journals are made of, as text.

use ckptd::events::Worker;
use ckptd::report::{JournalTable, Traffic, bytes, count};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Workers up to this many make a matrix; more a list of the heaviest pairs.
const MATRIX: u32 = 16;
/// Pairs, communicators and places that are listed.
const PAIRS: usize = 20;
const COMMUNICATORS: usize = 20;
const PLACES: usize = 40;

/// Appends a line; writing to a `String` cannot fail.
macro_rules! line {
    ($out:expr, $($format:tt)*) => { let _ = writeln!($out, $($format)*); };
}

/// What the program has sent.
pub fn traffic(out: &mut String, it: &Traffic) {
    if it.pairs.is_empty() {
        line!(
            out,
            "  the program's workers have sent no messages from one to another"
        );
    } else if it.workers <= MATRIX {
        matrix(
            out,
            it,
            "messages that the program's workers have sent",
            |amount| amount.count.to_string(),
        );
        matrix(out, it, "the same in bytes", |amount| bytes(amount.bytes));
    } else {
        line!(
            out,
            "  {} of workers have exchanged messages, most of all:",
            count(it.pairs.len(), "pair", "pairs")
        );
        for pair in it.heaviest(PAIRS) {
            let (from, to, amount) = (pair.from, pair.to, pair.messages);
            line!(
                out,
                "    worker {from} to worker {to}: {}, {}",
                count(amount.count, "message", "messages"),
                bytes(amount.bytes)
            );
        }
    }
    if it.other_pairs.count > 0 {
        let sent = count(it.other_pairs.count, "message", "messages");
        let size = bytes(it.other_pairs.bytes);
        line!(
            out,
            "    to further workers, which are not listed: {sent}, {size}"
        );
    }
    communicators(out, it);
    if it.undone.count > 0 {
        let undone = count(it.undone.count, "message", "messages");
        let size = bytes(it.undone.bytes);
        line!(
            out,
            "  sent twice, since rollbacks have undone it: {undone} ({size})"
        );
    }
}

fn matrix(
    out: &mut String,
    it: &Traffic,
    what: &str,
    show: impl Fn(ckptd::events::Amount) -> String,
) {
    let pairs: BTreeMap<_, _> = it
        .pairs
        .iter()
        .map(|pair| ((pair.from, pair.to), pair.messages))
        .collect();
    let cell = |from, to| {
        pairs
            .get(&(Worker(from), Worker(to)))
            .map_or("-".to_owned(), |amount| show(*amount))
    };
    let all = 0..it.workers;
    let widest = all
        .clone()
        .flat_map(|from| all.clone().map(move |to| (from, to)));
    let width = widest
        .map(|(from, to)| cell(from, to).len())
        .max()
        .unwrap_or(0)
        .max(2);
    line!(out, "  {what}, by worker from (down) and to (across)");
    let head: String = all.clone().map(|to| format!("  {to:>width$}")).collect();
    line!(out, "      {head}");
    for from in all.clone() {
        let cells: String = all
            .clone()
            .map(|to| format!("  {:>width$}", cell(from, to)))
            .collect();
        line!(out, "    {from:>2}{cells}");
    }
}

fn communicators(out: &mut String, it: &Traffic) {
    let width = it
        .communicators
        .iter()
        .take(COMMUNICATORS)
        .map(|comm| comm.name.chars().count())
        .max();
    let width = width.unwrap_or(0).max("communicator".len());
    line!(
        out,
        "  {:<width$}  {:>7}  {:>9}  {:>10}  {:>11}  {:>10}",
        "communicator",
        "members",
        "messages",
        "bytes",
        "collectives",
        "bytes"
    );
    for comm in it.communicators.iter().take(COMMUNICATORS) {
        let (name, comm) = (&comm.name, &comm.traffic);
        line!(
            out,
            "  {name:<width$}  {:>7}  {:>9}  {:>10}  {:>11}  {:>10}",
            comm.size,
            comm.messages.count,
            bytes(comm.messages.bytes),
            comm.collectives.count,
            bytes(comm.collectives.bytes)
        );
    }
    let [mut messages, mut collectives] = it.other_communicators;
    let more = it.communicators.iter().skip(COMMUNICATORS);
    more.for_each(|comm| {
        messages += comm.traffic.messages;
        collectives += comm.traffic.collectives;
    });
    if messages.count + collectives.count > 0 {
        line!(
            out,
            "  {:<width$}  {:>7}  {:>9}  {:>10}  {:>11}  {:>10}",
            "others",
            "",
            messages.count,
            bytes(messages.bytes),
            collectives.count,
            bytes(collectives.bytes)
        );
    }
}

/// What the journals are made of.
pub fn journal(out: &mut String, it: &JournalTable) {
    line!(
        out,
        "  set-up logs of {}: {}, {}, kept compressed as {}",
        count(it.workers, "worker", "workers"),
        count(it.total.count, "call", "calls"),
        bytes(it.total.bytes),
        bytes(it.kept)
    );
    if it.not_kept > 0 {
        line!(
            out,
            "  {} of them are not kept: too long, or not needed",
            it.not_kept
        );
    }
    line!(
        out,
        "  {:>9}  {:>10}  {:>6}  procedure, place",
        "calls",
        "bytes",
        "share"
    );
    let share = |of: u64| format!("{:.1}%", of as f64 / it.total.bytes.max(1) as f64 * 100.0);
    let (rows, others) = it.first(PLACES);
    for row in rows {
        let (calls, place) = (row.calls, &row.place);
        let at = if place.is_empty() { "" } else { " at " };
        line!(
            out,
            "  {:>9}  {:>10}  {:>6}  {}{at}{place}",
            calls.count,
            bytes(calls.bytes),
            share(calls.bytes),
            row.procedure
        );
    }
    if others.count > 0 {
        line!(
            out,
            "  {:>9}  {:>10}  {:>6}  all others",
            others.count,
            bytes(others.bytes),
            share(others.bytes)
        );
    }
}
