//! Layout of the address space, which must be equal in all ranks.

use super::excluded_ranges::{self, without};
use super::{loader, tls};
use crate::process_info;
use crate::user::program_runtime::Runtime;
use std::iter;
use understudy_abi::{LD_HEAP_SIZE, PROGRAM_LD_HEAP, RUNTIME_LD_HEAP, STUB_PAGE};
use understudy_catalogue::message;
use understudy_image::layout::{Backing, Layout};
use understudy_image::pages::AddrRange;
use understudy_image::vmas::{self, ExcludedRanges, Owner};
use understudy_mpi as mpi;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::Rank;
use xxhash_rust::xxh3::xxh3_64;

/// Records the state before the program runs; called in the process's first constructor.
///
/// The state comprises inherited descriptors, standard input, attributes of the process, the
/// mappings that ld.so made for itself (its first heap with the link maps and the main thread's
/// control block), and the layout that is compared between ranks.
pub fn record_start(rt: &Runtime) {
    super::files::record_inherited(rt);
    rt.input.borrow_mut().start_watch();
    rt.start
        .set(super::refused::start_state::StartState::read());
    rt.attributes.set(super::process_attributes::at_start());
    let info = process_info::info();
    let mut zones = ExcludedRanges::with_runtime_zone();
    let range = |start: usize, length: usize| {
        AddrRange::new(start as u64, ((start + length + 4095) & !4095) as u64)
    };
    zones.exclude(range(STUB_PAGE, 4096), Owner::Runtime);
    zones.exclude(range(PROGRAM_LD_HEAP, LD_HEAP_SIZE), Owner::Loader);
    zones.exclude(range(RUNTIME_LD_HEAP, LD_HEAP_SIZE), Owner::Loader);
    zones.exclude(range(info.loader_base, info.loader_length), Owner::Loader);
    zones.exclude(
        range(info.preload_base, info.preload_length),
        Owner::Runtime,
    );
    let modules = tls::modules();
    let first_heap = loader_heap(&modules);
    for &own in &first_heap {
        zones.exclude(own, Owner::Loader);
    }
    loader::find(&rt.loader, &first_heap);
    excluded_ranges::set(zones);
    rt.layout.set(describe(&modules));
}

/// Returns the mappings that contain the thread's control block or a link map.
///
/// The ranges of the modules themselves are left out.
fn loader_heap(modules: &[tls::TlsModule]) -> Vec<AddrRange> {
    let maps = loader::link_maps().map(|map| std::ptr::from_ref(map) as u64);
    let inside: Vec<u64> = iter::once(tls::control_block()).chain(maps).collect();
    let mut found = Vec::new();
    for vma in vmas::read_self().unwrap_or_default() {
        if !inside.iter().any(|&at| vma.range.contains(at)) || !vma.path.is_empty() {
            continue;
        }
        let mut parts = vec![vma.range];
        for &(start, end) in modules.iter().flat_map(|module| &module.ranges) {
            let module = AddrRange::new(start, end);
            parts = parts
                .into_iter()
                .flat_map(|part| without(part, module))
                .collect();
        }
        found.extend(parts);
    }
    found
}

/// Lists the values that must be equal in all ranks, with names.
fn describe(modules: &[tls::TlsModule]) -> Vec<(String, u64)> {
    let name = |module: &tls::TlsModule| {
        if module.name.is_empty() {
            "the program".to_owned()
        } else {
            module.name.clone()
        }
    };
    let place = |module: &tls::TlsModule| {
        xxh3_64(format!("{} {:?} {:x}", module.name, module.ranges, module.build()).as_bytes())
    };
    let mut list: Vec<(String, u64)> = modules
        .iter()
        .map(|module| (name(module), place(module)))
        .collect();
    list.push((
        "the dynamic loader's memory (LD_LIBRARY_PATH or the libraries' directories differ)".into(),
        xxh3_64(format!("{:x?}", loader::libraries()).as_bytes()),
    ));
    list.push((
        "the stack (arguments or environment differ in size)".into(),
        process_info::info().argv as u64,
    ));
    list.push((
        "understudy itself (another build of understudy was installed meanwhile)".into(),
        tls::own_build(),
    ));
    list.push(("the thread control block".into(), tls::control_block()));
    list.push(("the stack protector's value".into(), tls::guards()));
    list.push(("the heap's start".into(), heap_start()));
    list.push(("the processor's features".into(), processor_features()));
    list
}

fn heap_start() -> u64 {
    let all = vmas::read_self().unwrap_or_default();
    all.iter()
        .find(|vma| vma.path.as_slice() == b"[heap]")
        .map_or(0, |vma| vma.range.start)
}

/// Returns a hash of the processor's flags.
///
/// The flags determine which variants of functions the C library uses.
fn processor_features() -> u64 {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.lines()
        .find(|line| line.starts_with("flags"))
        .map_or(0, |flags| xxh3_64(flags.as_bytes()))
}

/// Adds the libraries that the program has opened before MPI_Init to the compared layout.
pub fn add_libraries(rt: &Runtime) {
    for library in loader::opened(&rt.loader) {
        let place = xxh3_64(format!("{library:x?}").as_bytes());
        rt.layout
            .borrow_mut()
            .push((format!("{} (opened before MPI_Init)", library.path), place));
    }
}

/// Returns the values that must be equal in all ranks, with names.
pub fn layout(rt: &Runtime) -> Vec<(String, u64)> {
    rt.layout.borrow().clone()
}

/// Compares the layout over all ranks.
///
/// Returns a message if any rank differs from rank 0. The message names the first difference
/// between rank 0 and the first such rank, and is equal in all ranks.
///
/// # Errors
/// Fails with the error of an MPI procedure.
pub fn compare_layout(rt: &Runtime, world: RealComm) -> mpi::Result<Option<String>> {
    let list = layout(rt);
    let all = world.gather(&[xxh3_64(format!("{list:?}").as_bytes())])?;
    let Some(different) = all.iter().position(|&hash| hash != all[0]) else {
        return Ok(None);
    };
    let encoded = bincode::encode_to_vec(&list, bincode::config::standard()).unwrap_or_default();
    let layout_of = |rank: Rank| -> mpi::Result<Vec<(String, u64)>> {
        let bytes = world.broadcast_bytes(rank, encoded.clone())?;
        let decoded = bincode::decode_from_slice(&bytes, bincode::config::standard());
        Ok(decoded.map(|(list, _)| list).unwrap_or_default())
    };
    let (first, other) = (layout_of(Rank(0))?, layout_of(Rank(different as u32))?);
    let what = first_difference(&first, &other);
    Ok(Some(
        message::address_space_differs(different, what).to_string(),
    ))
}

fn first_difference(first: &[(String, u64)], other: &[(String, u64)]) -> String {
    let pair = first
        .iter()
        .zip(other)
        .find(|(a, b)| a != b)
        .map(|(a, b)| (a.0.clone(), b.0.clone()));
    match pair {
        Some((a, b)) if a == b => a,
        Some((a, b)) => format!("{b} instead of {a}"),
        None => "the number of loaded libraries".into(),
    }
}

/// Returns the live part of the main thread's stack, given its stack pointer.
///
/// The live part extends from the page with the red zone, which lies directly below the address in
/// the pointer, to the end of the stack. While the thread uses another stack, such as a
/// coroutine's, the whole main stack counts as live, because the position where the thread left the
/// main stack is unknown.
pub fn live_stack(rsp: u64, layout: &Layout) -> AddrRange {
    const RED_ZONE: u64 = 128;
    let end = crate::process_info::info().stack_end as u64;
    let stack = layout
        .areas()
        .iter()
        .find(|area| area.backing == Backing::Stack);
    let start = match stack {
        Some(stack) if !stack.range.contains(rsp) => stack.range.start,
        _ => (rsp - RED_ZONE) & !4095,
    };
    AddrRange::new(start, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_named() {
        let list = |names: &[(&str, u64)]| {
            names
                .iter()
                .map(|(name, hash)| (name.to_string(), *hash))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            first_difference(&list(&[("a", 1), ("b", 2)]), &list(&[("a", 1), ("b", 3)])),
            "b"
        );
        assert_eq!(
            first_difference(&list(&[("a", 1)]), &list(&[("c", 1)])),
            "c instead of a"
        );
    }
}
