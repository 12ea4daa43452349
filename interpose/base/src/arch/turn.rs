//! The MPI lock: the one thread of the program that is in the runtime ([`understudy_abi::turn`]).
//!
//! The runtime itself always runs with the main thread's thread-local data.
#![allow(unsafe_code)]

use super::frame::{Frame, Rewound, top_frame};
use super::raw;
use crate::attention;
use crate::generated::{LOCAL, Proc};
use std::ffi::{c_char, c_int};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use understudy_abi::control_block;
use understudy_abi::turn::{Lent, Turn, TurnCode, UNCHANGED};
use understudy_mpi::call;

/// Returns `struct pthread` of the main thread, to which the thread-local data belong.
pub(super) fn main_block() -> usize {
    control_block::address()
}

/// The preload library's part of the lock, and a lookup of the program's symbols.
struct Face {
    code: TurnCode,
    symbol: fn(&str) -> u64,
}

// SAFETY: never changed; the code lives as long as the process, and the lock consists of atomics.
unsafe impl Send for Face {}
// SAFETY: as above.
unsafe impl Sync for Face {}

static FACE: OnceLock<Face> = OnceLock::new();

/// Connects to the preload library's part.
///
/// `symbol` returns the address of a symbol in the program's namespace, or 0.
pub fn connect(code: TurnCode, symbol: fn(&str) -> u64) {
    let _ = FACE.set(Face { code, symbol });
}

fn turn() -> &'static Turn {
    static NOBODYS: Turn = Turn::new();
    // SAFETY: the lock belongs to the preload library, which lives as long as the process.
    FACE.get()
        .map_or(&NOBODYS, |face| unsafe { &*face.code.turn })
}

/// Procedures that may be called at any time (MPI 4.1, 11.6.1).
const QUESTIONS: [Proc; understudy_abi::turn::QUESTIONS] = [
    Proc::MPI_Initialized,
    Proc::MPI_Finalized,
    Proc::MPI_Query_thread,
    Proc::MPI_Is_thread_main,
    Proc::MPI_Get_version,
    Proc::MPI_Get_library_version,
];

/// Function that answers such a procedure, with two arguments and the slot.
type Answer = unsafe extern "C" fn(*mut c_int, *mut c_int, u32) -> c_int;
/// Function that records an effect on files: kind, directory, path.
type Note = unsafe extern "C" fn(u32, c_int, *const c_char);

/// Sets functions that run without the MPI lock, on the caller's stack.
pub fn without_turn(answer: Answer, note: Note) {
    turn().answer.store(answer as usize, Ordering::Relaxed);
    turn().note.store(note as usize, Ordering::Relaxed);
}

/// Allows concurrent MPI calls, after all workers have agreed.
///
/// To be called before the first of these calls.
pub fn be_multiple() {
    attention::be_multiple();
    let bits = std::ptr::from_ref(attention::bits()).cast_mut();
    turn().attention.store(bits, Ordering::Relaxed);
}

/// Records that threads exist whose creation the preload library has not seen.
pub fn has_others() {
    turn().has_others.store(1, Ordering::Relaxed);
    if attention::is_multiple() {
        attention::set(attention::SEVERAL);
    }
}

/// Sets the offset in bytes of the kernel's thread number in control blocks.
///
/// Ignored if the block of this thread, the main one, does not have its number there.
pub fn numbers_are_at(place: usize) {
    // SAFETY: the word lies in glibc's larger control block; gettid(2).
    let is_it = unsafe { *((main_block() + place) as *const libc::pid_t) == libc::gettid() };
    if is_it {
        turn().number_at.store(place, Ordering::Relaxed);
    }
}

/// Records that the program has signal handlers.
pub fn has_handlers() {
    turn().has_handlers.store(1, Ordering::SeqCst);
}

/// Prepares the MPI lock for later use.
pub fn prepare() {
    let turn = turn();
    for (place, question) in turn.questions.iter().zip(QUESTIONS) {
        place.store(question.slot(), Ordering::Relaxed);
    }
    turn.abort.store(Proc::MPI_Abort.slot(), Ordering::Relaxed);
    turn.slots.store(LOCAL.len() as u32, Ordering::Relaxed);
    turn.locals
        .store(LOCAL.as_ptr().cast_mut(), Ordering::Relaxed);
    const FSGSBASE: u64 = 1 << 1;
    // SAFETY: getauxval(3) has no preconditions.
    let may_write_fs = unsafe { libc::getauxval(libc::AT_HWCAP2) } & FSGSBASE;
    turn.may_write_fs
        .store(may_write_fs as u32, Ordering::Relaxed);
    turn.told.store(
        std::ptr::from_ref(call::caller()).cast_mut(),
        Ordering::Relaxed,
    );
}

/// Allows any thread of the program to call MPI from now on.
pub fn share() {
    prepare();
    if let Some(face) = FACE.get() {
        // SAFETY: the main thread is in a call of the program, as `share` requires.
        unsafe { (face.code.share)() };
    }
}

/// Requests that calls use the MPI lock as soon as possible ([`settle`]), for other threads.
///
/// Has no effect before [`prepare`]. Any thread may call this function.
pub fn want() {
    let is_prepared = !turn().told.load(Ordering::Relaxed).is_null();
    if let Some(face) = FACE.get().filter(|_| is_prepared) {
        // SAFETY: `begin` may be called by any thread at any time.
        unsafe { (face.code.begin)() };
    }
}

/// Opens the MPI lock for all threads if this call, the outermost one, owns it.
///
/// No other call is under way then.
pub fn settle() {
    if !is_shared() && outermost_has_turn() {
        turn().is_shared.store(1, Ordering::SeqCst);
    }
}

/// True if any thread may call MPI.
pub fn is_shared() -> bool {
    turn().is_shared.load(Ordering::Relaxed) != 0
}

/// Returns the control block of the program's thread that is in the runtime.
pub fn block() -> usize {
    match turn().holder.load(Ordering::Relaxed) {
        0 => main_block(),
        holder => holder,
    }
}

/// True if the thread in the runtime is not the main thread.
#[inline]
pub fn is_foreign() -> bool {
    let holder = turn().holder.load(Ordering::Relaxed);
    holder != 0 && holder != main_block()
}

/// Returns the signals that the program has blocked in the runtime's current thread.
///
/// `None` if these are blocked now.
pub fn mask() -> Option<u64> {
    let mask = turn().mask.load(Ordering::Relaxed);
    (is_foreign() && mask != UNCHANGED).then_some(mask)
}

/// True if a call has acquired the MPI lock, which its return releases.
pub fn has_turn(frame: &Frame) -> bool {
    // SAFETY: the program's stack pointer points to the return address of its call.
    let returns_to = unsafe { (frame.rsp as *const usize).read() };
    is_return(returns_to as u64)
}

/// True if this is the outermost handler and its call has acquired the MPI lock.
fn outermost_has_turn() -> bool {
    // SAFETY: the frame lies at the top of the runtime's stack while a handler runs.
    top_frame().is_some_and(|frame| has_turn(unsafe { &*frame }))
}

/// Returns the function that runs a callback while other threads may call MPI.
///
/// `None` unless the innermost call, in `frame`, owns the lock itself and other threads exist.
pub(super) fn lend(frame: &Frame) -> Option<unsafe extern "C" fn(&Lent) -> u64> {
    /// Offset, below the saved frame pointer, of the word that marks nested calls.
    ///
    /// It is not 0 in a call from a callback that has not yielded the lock.
    const NESTED: usize = 64;
    if !attention::is(attention::SEVERAL) {
        return None;
    }
    // SAFETY: `understudy_abi::turn::Turn` defines this word for calls that have acquired the MPI
    // lock.
    let is_own = has_turn(frame)
        && unsafe { ((frame.preserved[RBP] as usize - NESTED) as *const u64).read() == 0 };
    is_own
        .then(|| FACE.get().map(|face| face.code.lend))
        .flatten()
}

/// True if this call runs during another thread's callback, which has yielded the lock.
pub fn is_borrowed() -> bool {
    let lender = turn().lender.load(Ordering::Relaxed);
    lender != 0 && lender != turn().holder.load(Ordering::Relaxed)
}

/// Makes the program repeat the call from its entry; returns true.
///
/// The handler must return at once.
pub fn make_again() -> bool {
    turn().again.store(1, Ordering::Relaxed);
    true
}

/// Records that no callback is under way any more.
pub(super) fn end_lending() {
    turn().lender.store(0, Ordering::Relaxed);
}

/// Index of rbp in a frame's preserved registers.
const RBP: usize = 4;

/// Returns the return address of the program's call.
pub fn call_site(frame: &Frame) -> u64 {
    let place = if has_turn(frame) {
        frame.preserved[RBP] + 8
    } else {
        frame.rsp
    };
    // SAFETY: the stack pointer points to the return address; with the MPI lock, that address is
    // above the saved frame pointer.
    unsafe { (place as *const u64).read() }
}

/// True for the address to which calls return that release the lock.
pub fn is_return(address: u64) -> bool {
    FACE.get()
        .is_some_and(|face| address == face.code.returned as u64)
}

/// Returns the address at which the program must resume to make this call.
pub fn address_of_call(frame: &Frame) -> Option<u64> {
    let face = FACE.get()?;
    if has_turn(frame) {
        return Some(face.code.again as u64);
    }
    let procedure = Proc::ALL.get(frame.slot as usize)?;
    Some((face.symbol)(procedure.name())).filter(|&address| address != 0)
}

/// Prepares the main thread to resume with the call in `frame`.
///
/// It owns the lock exactly if the end of that call releases the lock.
pub fn pass_to_main(frame: &Frame) {
    let turn = turn();
    turn.number.store(0, Ordering::Relaxed);
    call::caller().store(1, Ordering::Relaxed);
    if has_turn(frame) {
        give_to_main(turn);
    } else {
        give_back(turn);
    }
}

fn give_to_main(turn: &Turn) {
    turn.holder.store(main_block(), Ordering::Relaxed);
    turn.lock.store(1, Ordering::SeqCst);
    // For threads that were waiting before they were restored.
    turn.waited_for.store(1, Ordering::SeqCst);
}

/// Gives the lock to the main thread if that is in the runtime without it.
///
/// The main thread has entered the runtime before the lock was in use.
pub fn keep() {
    let turn = turn();
    if is_shared() && turn.holder.load(Ordering::Relaxed) == 0 {
        give_to_main(turn);
    }
}

/// Yields the MPI lock in a call that waits for others, if threads need it.
///
/// The handler must then return at once, and the call is repeated from its entry. The program must
/// not have received any result of the call before.
pub fn give_way() -> Result<(), Rewound> {
    let turn = turn();
    // In a callback, the call that has led to it cannot be left.
    if turn.waited_for.load(Ordering::Relaxed) == 0 || !outermost_has_turn() {
        return Ok(());
    }
    make_again();
    Err(Rewound)
}

/// Releases the lock, without libc and thread-local data.
fn give_back(turn: &Turn) {
    turn.holder.store(0, Ordering::Relaxed);
    turn.lock.store(0, Ordering::SeqCst);
    turn.waited_for.store(0, Ordering::SeqCst);
    raw::wake(&turn.waited_for);
}

/// Releases the lock of the calling thread, which has left the runtime.
pub fn leave() {
    give_back(turn());
}

/// Calls a function with the thread-local data of the program's thread.
pub fn as_program<T>(run: impl FnOnce() -> T) -> T {
    if !is_foreign() {
        return run();
    }
    let main = main_block();
    set_thread(block());
    let result = run();
    set_thread(main);
    result
}

/// Sets the control block, and thereby the thread-local data, of the calling thread.
#[inline(always)]
pub fn set_thread(block: usize) {
    const ARCH_SET_FS: usize = 0x1002;
    // SAFETY: arch_prctl(2) with the control block of a thread.
    unsafe { raw::call(libc::SYS_arch_prctl, [ARCH_SET_FS, block, 0, 0, 0, 0]) };
}
