//! Which thread of the program is in the runtime, where any may call MPI
//! ([`understudy_abi::turn`]).
//!
//! The runtime itself is always run with the main thread's thread-local data.
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

/// `struct pthread` of the main thread, whose thread-local data these are.
pub(super) fn main_block() -> usize {
    control_block::address()
}

/// The face's part, and what finds symbols of the program.
struct Face {
    code: TurnCode,
    symbol: fn(&str) -> u64,
}

// SAFETY: never changed; what it points to lives as long as the process, and is made of atomics.
unsafe impl Send for Face {}
// SAFETY: as above.
unsafe impl Sync for Face {}

static FACE: OnceLock<Face> = OnceLock::new();

/// Connects this with the face's part; `symbol` gives the address of a symbol as the program sees
/// it, or 0.
pub fn connect(code: TurnCode, symbol: fn(&str) -> u64) {
    let _ = FACE.set(Face { code, symbol });
}

fn turn() -> &'static Turn {
    static NOBODYS: Turn = Turn::new();
    // SAFETY: the face's, which lives as long as the process.
    FACE.get()
        .map_or(&NOBODYS, |face| unsafe { &*face.code.turn })
}

/// What may be called at any time (MPI 4.1, 11.6.1).
const QUESTIONS: [Proc; understudy_abi::turn::QUESTIONS] = [
    Proc::MPI_Initialized,
    Proc::MPI_Finalized,
    Proc::MPI_Query_thread,
    Proc::MPI_Is_thread_main,
    Proc::MPI_Get_version,
    Proc::MPI_Get_library_version,
];

/// Answers what may be asked at any time: two arguments and the slot.
type Answer = unsafe extern "C" fn(*mut c_int, *mut c_int, u32) -> c_int;
/// Notes an effect on files: kind, directory, path.
type Note = unsafe extern "C" fn(u32, c_int, *const c_char);

/// These are called whoever's turn it is, on the caller's stack.
pub fn without_turn(answer: Answer, note: Note) {
    turn().answer.store(answer as usize, Ordering::Relaxed);
    turn().note.store(note as usize, Ordering::Relaxed);
}

/// All workers have agreed that several threads may call at the same time. To be told before the
/// first may.
pub fn be_multiple() {
    attention::be_multiple();
    let bits = std::ptr::from_ref(attention::bits()).cast_mut();
    turn().attention.store(bits, Ordering::Relaxed);
}

/// There are threads that the face has not seen created.
pub fn has_others() {
    turn().has_others.store(1, Ordering::Relaxed);
    if attention::is_multiple() {
        attention::set(attention::SEVERAL);
    }
}

/// Control blocks have the kernel's number of their thread there, in bytes, if that of this one,
/// the main one, has it.
pub fn numbers_are_at(place: usize) {
    // SAFETY: a word of glibc's control block, which is larger; gettid(2).
    let is_it = unsafe { *((main_block() + place) as *const libc::pid_t) == libc::gettid() };
    if is_it {
        turn().number_at.store(place, Ordering::Relaxed);
    }
}

/// The program has handlers of signals.
pub fn has_handlers() {
    turn().has_handlers.store(1, Ordering::SeqCst);
}

/// Calls may take turns later on.
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
    // SAFETY: getauxval(3).
    let may_write_fs = unsafe { libc::getauxval(libc::AT_HWCAP2) } & FSGSBASE;
    turn.may_write_fs
        .store(may_write_fs as u32, Ordering::Relaxed);
    turn.told.store(
        std::ptr::from_ref(call::caller()).cast_mut(),
        Ordering::Relaxed,
    );
}

/// From now on any thread of the program may call.
pub fn share() {
    prepare();
    if let Some(face) = FACE.get() {
        // SAFETY: the main thread is in a call of the program.
        unsafe { (face.code.share)() };
    }
}

/// There is something to do for other threads: calls take turns as soon as they can ([`settle`]),
/// if that is [`prepare`]d. For any thread.
pub fn want() {
    let is_prepared = !turn().told.load(Ordering::Relaxed).is_null();
    if let Some(face) = FACE.get().filter(|_| is_prepared) {
        // SAFETY: for any thread, at any time.
        unsafe { (face.code.begin)() };
    }
}

/// If this call, the outermost one, has a turn, no other one is under way: any thread may have one.
pub fn settle() {
    if !is_shared() && outermost_has_turn() {
        turn().is_shared.store(1, Ordering::SeqCst);
    }
}

/// Whether any thread may call.
pub fn is_shared() -> bool {
    turn().is_shared.load(Ordering::Relaxed) != 0
}

/// Control block of the program's thread that is in the runtime.
pub fn block() -> usize {
    match turn().holder.load(Ordering::Relaxed) {
        0 => main_block(),
        holder => holder,
    }
}

/// Whether that is another one than the main thread.
#[inline]
pub fn is_foreign() -> bool {
    let holder = turn().holder.load(Ordering::Relaxed);
    holder != 0 && holder != main_block()
}

/// The signals that the program has blocked in the thread that is in the runtime, if those that are
/// blocked now are others.
pub fn mask() -> Option<u64> {
    let mask = turn().mask.load(Ordering::Relaxed);
    (is_foreign() && mask != UNCHANGED).then_some(mask)
}

/// Whether a call was made by way of taking turns, so that it ends by giving the turn back.
pub fn has_turn(frame: &Frame) -> bool {
    // SAFETY: the return address of the program's call, at its stack pointer.
    let returns_to = unsafe { (frame.rsp as *const usize).read() };
    is_return(returns_to as u64)
}

/// Whether this handler is the outermost one, and its call was made so.
fn outermost_has_turn() -> bool {
    // SAFETY: the frame lies at the top of the runtime's stack as long as a handler runs.
    top_frame().is_some_and(|frame| has_turn(unsafe { &*frame }))
}

/// What runs a callback in whose time others may call, if the call in that frame, the innermost,
/// has a turn of its own and there are others.
pub(super) fn lend(frame: &Frame) -> Option<unsafe extern "C" fn(&Lent) -> u64> {
    /// In the caller's frame, from the saved frame pointer on: whether the call is one of a
    /// callback that has not lent its turn.
    const NESTED: usize = 64;
    if !attention::is(attention::SEVERAL) {
        return None;
    }
    // SAFETY: as `understudy_abi::turn::Turn` has it, where the call was made by way of taking
    // turns.
    let is_own = has_turn(frame)
        && unsafe { ((frame.preserved[RBP] as usize - NESTED) as *const u64).read() == 0 };
    is_own
        .then(|| FACE.get().map(|face| face.code.lend))
        .flatten()
}

/// Whether this call is made in the time of another thread's callback.
pub fn is_borrowed() -> bool {
    let lender = turn().lender.load(Ordering::Relaxed);
    lender != 0 && lender != turn().holder.load(Ordering::Relaxed)
}

/// The handler is to return at once, and the call is made once more from its entry: true.
pub fn make_again() -> bool {
    turn().again.store(1, Ordering::Relaxed);
    true
}

/// No callback is under way any more.
pub(super) fn end_lending() {
    turn().lender.store(0, Ordering::Relaxed);
}

/// Where a frame has rbp.
const RBP: usize = 4;

/// Where the program has made a call: its return address.
pub fn call_site(frame: &Frame) -> u64 {
    let place = if has_turn(frame) {
        frame.preserved[RBP] + 8
    } else {
        frame.rsp
    };
    // SAFETY: the stack pointer points to the return address; where turns are taken, that is above
    // the saved frame pointer.
    unsafe { (place as *const u64).read() }
}

/// Whether an address is that to which calls return in order to give the turn back.
pub fn is_return(address: u64) -> bool {
    FACE.get()
        .is_some_and(|face| address == face.code.returned as u64)
}

/// Where a thread of the program is to go on so that it makes this call.
pub fn address_of_call(frame: &Frame) -> Option<u64> {
    let face = FACE.get()?;
    if has_turn(frame) {
        return Some(face.code.again as u64);
    }
    let procedure = Proc::ALL.get(frame.slot as usize)?;
    Some((face.symbol)(procedure.name())).filter(|&address| address != 0)
}

/// The main thread goes on with the call in `frame`: it is its turn exactly if the end of the call
/// gives the turn back.
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
    // Those who waited before they were brought back.
    turn.waited_for.store(1, Ordering::SeqCst);
}

/// It is the turn of the thread in the runtime, if that is the main one, which came when none were
/// taken.
pub fn keep() {
    let turn = turn();
    if is_shared() && turn.holder.load(Ordering::Relaxed) == 0 {
        give_to_main(turn);
    }
}

/// This call waits for other processes. If other threads of the program wait for their turn, it
/// gives way to them: the handler is to return at once, and the call is made once more from its
/// entry. Nothing may have been told to the program before.
pub fn give_way() -> Result<(), Rewound> {
    let turn = turn();
    // In a callback, the call that has led to it cannot be left.
    if turn.waited_for.load(Ordering::Relaxed) == 0 || !outermost_has_turn() {
        return Ok(());
    }
    make_again();
    Err(Rewound)
}

/// Nobody's turn. Uses neither libc nor thread-local data.
fn give_back(turn: &Turn) {
    turn.holder.store(0, Ordering::Relaxed);
    turn.lock.store(0, Ordering::SeqCst);
    turn.waited_for.store(0, Ordering::SeqCst);
    raw::wake(&turn.waited_for);
}

/// The calling thread, which is no more in the runtime, gives its turn back.
pub fn leave() {
    give_back(turn());
}

/// Runs with the thread-local data of the program's thread.
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

/// Makes these the calling thread's thread-local data.
#[inline(always)]
pub fn set_thread(block: usize) {
    const ARCH_SET_FS: usize = 0x1002;
    // SAFETY: arch_prctl(2) with the control block of a thread.
    unsafe { raw::call(libc::SYS_arch_prctl, [ARCH_SET_FS, block, 0, 0, 0, 0]) };
}
