//! Start of the preload library, from its constructor to a loaded runtime.
//!
//! ```text
//!  execution 1   no MPI program expected:  the constructor returns
//!                cannot be protected:      executes the program without this library
//!                no guardian yet:          executes the guardian, which executes the program again
//!                else:                     saves the environment in a memfd, disables address
//!                                          randomisation, executes the program a second time with
//!                                          an environment of fixed size
//!  execution 2   gives the process the stack canaries, random bytes and heap layout of the job
//!                patches ld.so's mmap, replaces ld.so's malloc
//!                dlmopen: namespace of the runtime (shim, new libc, its mmap patched; runtime)
//!                dlmopen: namespace of the MPI library (shim, new libc, its mmap patched; libmpi)
//!                starts the runtime, and connects the thunks to its entry points
//! ```
//!
//! Two executions are necessary because the kernel chooses all addresses of a process, those of the
//! stack included, before the first instruction.
#![allow(unsafe_code)]

use crate::auxv::Auxv;
use crate::bypass::Program;
use crate::environ::{self, BOOT_VARIABLE};
use crate::exec;
use crate::forked_children;
use crate::guardian;
use crate::hash_seed;
use crate::heap;
use crate::late_mpi;
use crate::launched::{self, Protection};
use crate::ldheap::HeapError;
use crate::limits;
use crate::link::{self, OUR_SONAME};
use crate::load::{self, LoadFailure, SecondExecution};
use crate::lost_environment;
use crate::messages::Text;
use crate::nested_launcher;
use crate::pid_namespace;
use crate::relay;
use crate::saved_environment;
use crate::stack::on_stack;
use crate::sys::{self, nr, sys};
use crate::zone::PatchError;
use crate::{fortran, profiler};
use core::ffi::{c_char, c_int, c_void};
use core::fmt::Display;
use understudy_abi::{RUNTIME_STACK, RUNTIME_STACK_SIZE, ZONE_START};
use understudy_catalogue::message;
use understudy_elf::LinkMap;

const ADDR_NO_RANDOMIZE: usize = 0x004_0000;
const ENOMEM: c_int = 12;
/// Address to which the saved environment of the launcher is mapped.
const ENVIRONMENT_ADDRESS: usize = ZONE_START + (1 << 20);

unsafe extern "C" {
    fn dlerror() -> *const c_char;
}

/// Decides how the process runs: without this library, as a guardian, or protected.
///
/// The function returns if the process needs no preparation, and at the end of execution 2.
///
/// # Safety
/// Must be called once, from the constructor, with the constructor's arguments.
pub unsafe fn start(argc: c_int, argv: *const *const c_char, envp: *mut *const c_char) {
    let list = envp.cast_const();
    // SAFETY: the caller guarantees the constructor's arguments: the kernel's arrays on the stack.
    unsafe {
        let variable = |name: &[u8]| environ::value(list, name);
        if variable(b"UNDERSTUDY_ASIDE=").is_some() {
            return;
        }
        let auxv = Auxv::after(list);
        if let Some(fd) = variable(BOOT_VARIABLE) {
            let fd = fd
                .iter()
                .fold(0, |number, digit| number * 10 + i32::from(digit - b'0'));
            return run_second_execution(argc, argv, envp, &auxv, fd);
        }
        let base = link::own_base();
        let is_other = |object: &LinkMap| link::is_mpi(object) && object.base() != base;
        let uses_other_mpi = link::objects().any(is_other) || profiler::is_library_behind();
        let uses_our_mpi =
            link::objects().any(|object| object.base() != base && object.needs(OUR_SONAME));
        let program = Program::new(argv, list, &auxv, !uses_our_mpi && !uses_other_mpi);
        nested_launcher::check(&program);
        if !uses_other_mpi && !uses_our_mpi {
            if launched::is_concerned(list) && !launched::is_of_program(list) {
                let is_first = late_mpi::is_started_by_launcher(list);
                if late_mpi::is_expected(list, is_first) {
                    run_first_execution(&program)
                }
                if is_first {
                    exec::remember_wrapper(list);
                }
            }
            return;
        }
        lost_environment::refuse(list);
        let launched = launched::is_launched(list);
        if uses_other_mpi {
            guardian::execute_matching_library(&program, list);
        }
        if !launched || environ::is_on(list, b"UNDERSTUDY_DISABLE=") {
            program.run_unprotected(None);
        }
        if uses_other_mpi {
            match link::objects().find_map(link::cray_name) {
                Some(name) => program.refuse(None, &message::cray_mpi_library(Text(name))),
                None => program.refuse(None, &message::UNKNOWN_MPI_LIBRARY),
            }
        }
        run_first_execution(&program)
    }
}

/// Returns the number of workers: the job's size without the spares.
///
/// `None` if the size or UNDERSTUDY_SPARES is no number, or the size is less than the number of
/// spares, which is 1 by default. The program sees the result as the job's size
/// ([`environ::SIZES`]). The runtime refuses a wrong number of spares.
///
/// # Safety
/// `list` must be a valid environment.
unsafe fn workers(list: *const *const c_char) -> Option<usize> {
    let number = |text: &[u8]| core::str::from_utf8(text).ok()?.parse::<usize>().ok();
    // SAFETY: the caller guarantees that `list` is a valid environment.
    let (size, spares) = unsafe {
        let spares = environ::value(list, b"UNDERSTUDY_SPARES=");
        (environ::identity(list).size, spares)
    };
    let spares = spares.filter(|text| !text.is_empty());
    number(size)?.checked_sub(spares.map_or(Some(1), number)?)
}

/// Variable with the job's secret, which ranks share and other users cannot read ([`equalise`]).
const SECRET_VARIABLE: &[u8] = b"UNDERSTUDY_SECRET=";

/// Test fault: personality(2) appears to be refused.
///
/// The runtime reads all other faults, but starts too late for this fault.
const PRETEND_REFUSED: &[u8] = b"pretend no-personality";

/// Execution 1: executes the guardian, or the program a second time.
///
/// A program that cannot be protected is refused.
fn run_first_execution(program: &Program) -> ! {
    let list = program.environment;
    // SAFETY: the caller of `Program::new` guarantees a valid environment; personality(2) has no
    // memory effects.
    unsafe {
        let protection = launched::protection(list);
        if protection == Protection::None {
            program.refuse(None, &message::SEVERAL_NODES_WITHOUT_LAUNCHER);
        }
        limits::check(program);
        limits::check_directory(program);
        limits::check_valgrind(program);
        pid_namespace::check(program);
        if protection == Protection::Guardian {
            guardian::become_guardian(program);
        }
        let personality = sys!(nr::PERSONALITY, 0xffff_ffffusize);
        let pretend_refused = environ::value(list, b"UNDERSTUDY_FAULT=").is_some_and(|faults| {
            faults
                .windows(PRETEND_REFUSED.len())
                .any(|words| words == PRETEND_REFUSED)
        });
        let is_disabled = personality >= 0 && personality as usize & ADDR_NO_RANDOMIZE != 0;
        let disable_randomisation = || {
            let disabled = personality as usize | ADDR_NO_RANDOMIZE;
            personality >= 0 && sys!(nr::PERSONALITY, disabled) >= 0
        };
        if pretend_refused || !(is_disabled || disable_randomisation()) {
            program.refuse(None, &message::PERSONALITY_REFUSED);
        }
        let fixed = match saved_environment::save(list, personality as usize) {
            Ok(fd) if program.is_late => {
                environ::second_execution(list, fd, None, [None, fortran::find()])
            }
            Ok(fd) => environ::second_execution(
                list,
                fd,
                workers(list),
                [profiler::find(), fortran::find()],
            ),
            Err(error) => program.refuse(
                Some(personality as usize),
                &message::environment_not_saved(error),
            ),
        };
        let error = fixed.map_or(ENOMEM, |environment| program.execute(environment));
        program.refuse(
            Some(personality as usize),
            &message::not_executed_without_randomisation(error),
        )
    }
}

/// Execution 2: equalises the process with other ranks, and loads the other two sides.
///
/// The runtime and MPI sides are loaded on a stack in the reserved range; all other steps run on
/// the program's stack.
///
/// # Safety
/// The requirements of [`start`] apply.
unsafe fn run_second_execution(
    argc: c_int,
    argv: *const *const c_char,
    envp: *mut *const c_char,
    auxv: &Auxv,
    fd: c_int,
) {
    let Some(saved) = saved_environment::restore(fd, ENVIRONMENT_ADDRESS) else {
        crate::messages::print(&message::ENVIRONMENT_LOST);
        sys::exit(understudy_catalogue::exit_status::INTERNAL)
    };
    // SAFETY: the caller guarantees the kernel's arrays; only ld.so has already read the
    // environment.
    unsafe {
        environ::unpad(envp);
        exec::remember(saved.list, envp.cast_const());
        let is_late = !link::objects()
            .any(|object| object.base() != link::own_base() && object.needs(OUR_SONAME));
        let program = Program::new(argv, saved.list, auxv, is_late);
        refuse_randomised(&program, saved.personality);
        let has_disk = environ::value(saved.list, b"UNDERSTUDY_DISK=")
            .is_some_and(|directory| !directory.is_empty());
        let secret =
            environ::value(saved.list, SECRET_VARIABLE).filter(|secret| !secret.is_empty());
        let key = match has_disk {
            true => program.path.as_bytes(),
            false => secret.unwrap_or(environ::identity(saved.list).job),
        };
        let seed = equalise(auxv.random, key);
        if let Err(error) = sys::map_anonymous(RUNTIME_STACK, RUNTIME_STACK_SIZE, 0) {
            program.refuse(Some(saved.personality), &message::addresses_taken(error));
        }
        // The file name is the last string on the stack (execve(2)); its page is the last one of
        // the stack.
        let stack_end = (auxv.execfn as usize + 4096) & !4095;
        let mut second = SecondExecution {
            argc,
            argv,
            program,
            personality: saved.personality,
            auxv,
            stack_end,
        };
        on_stack(
            (&raw mut second).cast(),
            load_or_refuse,
            RUNTIME_STACK + RUNTIME_STACK_SIZE,
        );
        relay::line_buffer_terminal();
        forked_children::close_mpi_descriptors();
        hash_seed::begin(seed, envp.cast_const());
    }
}

/// Refuses a program for which the kernel has enabled address randomisation again.
///
/// execve(2) enables randomisation for a file with a set-id bit, even if the bit changes no id.
/// `original_personality` is the value of personality(2) before execution 1 changed it.
fn refuse_randomised(program: &Program, original_personality: usize) {
    // SAFETY: personality(2) has no memory effects.
    let personality = unsafe { sys!(nr::PERSONALITY, 0xffff_ffffusize) };
    if personality & ADDR_NO_RANDOMIZE as isize == 0 {
        program.refuse(
            Some(original_personality),
            &message::randomisation_switched_on(Text(program.path.as_bytes())),
        )
    }
}

/// Sets stack canary, pointer guard, random bytes and heap, equally in all ranks.
///
/// The values are derived from `key`. The key is the job's secret; a job without a secret uses its
/// name, which other users can guess. With a disk level, the values must be equal in every start of
/// the job, so the key is the program's path. Returns a seed for further values that must be equal.
///
/// # Safety
/// The canary must not change while a function is active that checks it on return. This function
/// must therefore run before any other function with a canary in its frame is entered.
unsafe fn equalise(random: *mut [u8; 16], key: &[u8]) -> u64 {
    let mix = |seed: u64| {
        key.iter().fold(seed, |hash, &byte| {
            (hash ^ u64::from(byte))
                .wrapping_mul(0x100_0000_01b3)
                .rotate_left(23)
        })
    };
    let (canary, guard) = (
        mix(0xcbf2_9ce4_8422_2325) & !0xff,
        mix(0x9e37_79b9_7f4a_7c15),
    );
    // SAFETY: glibc's thread control block on x86-64 has the canary at fs:0x28 and the pointer
    // guard at fs:0x30; AT_RANDOM points to the kernel's 16 random bytes on the stack.
    unsafe {
        core::arch::asm!(
            "mov fs:[0x28], {0}", "mov fs:[0x30], {1}",
            in(reg) canary, in(reg) guard, options(nostack)
        );
        if !random.is_null() {
            random.cast::<[u64; 2]>().write_unaligned([canary, guard]);
        }
    }
    heap::configure(mix(0xbf58_476d_1ce4_e5b9));
    mix(0x94d0_49bb_1331_11eb)
}

/// Loads the runtime and MPI sides, or refuses the program with the failure's reason.
unsafe extern "C" fn load_or_refuse(argument: *mut c_void) {
    // SAFETY: `run_second_execution` passes the address of its local variable.
    let second = unsafe { &mut *argument.cast::<SecondExecution<'_>>() };
    match load::load(second) {
        Ok(()) => {}
        Err(LoadFailure::Text(reason)) => second.refuse(&reason),
        Err(LoadFailure::NoMpiLibrary) => second.refuse(&link::not_found()),
        Err(LoadFailure::Patch(
            library,
            call,
            error @ (PatchError::NotFound | PatchError::TooMany | PatchError::Outside),
        )) => {
            let problem = match error {
                PatchError::NotFound => "was not found",
                PatchError::TooMany => "is made in too many places",
                _ => "is also made in places that understudy did not find",
            };
            second.refuse(&message::glibc_call_unknown(
                Text(libc_version()),
                call,
                library,
                problem,
            ))
        }
        Err(LoadFailure::Patch(library, call, PatchError::Protect(error))) => {
            second.refuse(&message::code_not_writable(call, library, error))
        }
        Err(LoadFailure::Heap(HeapError::Function(name))) => {
            second.refuse(&message::glibc_pointer_unknown(Text(libc_version()), name))
        }
        Err(LoadFailure::Heap(HeapError::Memory(error))) => {
            second.refuse(&message::loader_heap_addresses(error))
        }
        Err(LoadFailure::Loader(problem)) => {
            // SAFETY: dlerror(3) returns a string or null.
            let reason = unsafe { dlerror() };
            let reason = if reason.is_null() {
                b""
            } else {
                loader_string(reason)
            };
            second.refuse(&format_args!("{problem}: {}", Text(reason)))
        }
        Err(LoadFailure::Runtime) => second.program.run_unprotected(Some(second.personality)),
        Err(LoadFailure::Stop(status)) => sys::exit(status),
    }
}

fn libc_version() -> &'static [u8] {
    unsafe extern "C" {
        fn gnu_get_libc_version() -> *const c_char;
    }
    // SAFETY: gnu_get_libc_version(3) returns a constant string.
    loader_string(unsafe { gnu_get_libc_version() })
}

fn loader_string(text: *const c_char) -> &'static [u8] {
    // SAFETY: called only with C strings of ld.so and libc, which are never freed.
    unsafe { sys::bytes(text) }
}

impl SecondExecution<'_> {
    fn refuse(&self, reason: &dyn Display) -> ! {
        self.program.refuse(Some(self.personality), reason)
    }
}
