//! Tests on the ELF objects of the test process itself.
#![allow(unsafe_code)]

use crate::{Callback, Dynamic};
use crate::{LinkMap, LoadedModule, LoaderDebug, ProgramHeader, for_each_module, program_headers};
use core::ffi::{c_int, c_void};
use std::vec::Vec;

unsafe extern "C" {
    static _r_debug: LoaderDebug;
    static __ehdr_start: u8;
    fn dl_iterate_phdr(callback: Callback, data: *mut c_void) -> c_int;
}

fn link_maps() -> Vec<&'static LinkMap> {
    // SAFETY: no object is loaded or unloaded while the tests run.
    unsafe { LinkMap::list(LoaderDebug::first(&raw const _r_debug)) }.collect()
}

fn for_each(visit: impl FnMut(&LoadedModule)) {
    // SAFETY: `for_each_module` passes a callback of the type that dl_iterate_phdr(3) calls, and
    // the callback's data.
    let iterate = |callback, data| unsafe {
        dl_iterate_phdr(callback, data);
    };
    // SAFETY: `iterate` is dl_iterate_phdr(3) of the test's namespace.
    unsafe { for_each_module(iterate, visit) };
}

#[test]
fn both_lists_have_the_objects_in_one_order() {
    let mut modules = Vec::new();
    for_each(|module| modules.push((module.base(), module.name().to_vec())));
    let records = link_maps();
    let records = records.iter().map(|map| (map.base(), map.name().to_vec()));
    assert_eq!(modules, records.collect::<Vec<_>>());
    assert!(modules[0].1.is_empty() && modules.len() > 1);
}

#[test]
fn every_record_leads_to_the_first() {
    let records = link_maps();
    for &record in &records {
        // SAFETY: a record of ld.so's list, which does not change while the tests run.
        let first = unsafe { LinkMap::first_of(record) };
        assert!(core::ptr::eq(first, records[0]));
    }
    // SAFETY: `first_of` permits a null pointer.
    assert!(unsafe { LinkMap::first_of(core::ptr::null()) }.is_null());
}

#[test]
fn the_dynamic_section_contains_the_soname_and_needed_libraries() {
    let records = link_maps();
    assert!(records[0].needs(b"libc.so.6") && !records[0].needs(b"libc.so"));
    let libc = records
        .iter()
        .find(|map| map.name().ends_with(b"/libc.so.6"))
        .unwrap();
    let names: Vec<_> = libc.strings(Dynamic::SONAME).collect();
    assert_eq!(names, [b"libc.so.6"]);
    assert!(libc.entry(usize::MAX).is_none());
}

#[test]
fn imports_are_symbols_of_other_objects() {
    let program = link_maps()[0];
    assert!(program.imports().any(|name| name == b"dl_iterate_phdr"));
    assert!(program.imports().all(|name| name != b"both_lists"));
}

#[test]
fn the_vdso_has_strings_and_no_imports() {
    let records = link_maps();
    let vdso = records.iter().find(|map| map.name() == b"linux-vdso.so.1");
    if let Some(vdso) = vdso {
        assert_eq!(vdso.imports().count(), 0);
        assert_eq!(
            vdso.strings(Dynamic::SONAME).next(),
            Some(&b"linux-vdso.so.1"[..])
        );
    }
}

#[test]
fn program_headers_are_those_in_memory() {
    let base = &raw const __ehdr_start as usize;
    // SAFETY: `base` is the address of this executable's ELF header, which stays mapped.
    let mapped = unsafe { program_headers(base) };
    let function = program_headers_are_those_in_memory as *const () as usize;
    let has_function = |header: &&ProgramHeader| {
        header.kind == ProgramHeader::LOAD
            && (header.address..header.address + header.size).contains(&(function - base))
    };
    let code = mapped.iter().find(has_function).unwrap();
    assert!(code.is_code() && !code.is_data() && code.alignment >= 4096);
    let mut count = 0;
    for_each(|module| {
        if module.name().is_empty() {
            count = module.headers().len();
            assert!(module.headers_of_kind(ProgramHeader::DYNAMIC).count() == 1);
            assert!(!module.has_static_tls());
        }
    });
    assert_eq!(count, mapped.len());
}

#[test]
fn there_is_one_namespace() {
    // SAFETY: `count_namespaces` permits the address of ld.so's list and a null pointer.
    unsafe {
        assert_eq!(LoaderDebug::count_namespaces(&raw const _r_debug), 1);
        assert_eq!(LoaderDebug::count_namespaces(core::ptr::null()), 0);
    }
}
