//! Whether the job is protected: what is said when it is not, and what follows.

use crate::Runtime;
use crate::world::{self, get};
use crate::{copies, events, recovery, sys, told};
use understudy_abi::exit;
use understudy_formats::events::Kind;
use understudy_numbers::ProcessNumber;
use understudy_settings::Require;

/// Reasons for which a running job is not protected any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The program has something that cannot be saved.
    Unsaved,
    /// Memory does not suffice for program and copies.
    Memory,
}

impl Loss {
    /// The setting that lets the job stop, if it does.
    fn stops(self) -> Option<&'static str> {
        let is_required = match told::config().require {
            Require::Never => false,
            Require::Start => self == Loss::Unsaved,
            Require::Always => true,
        };
        is_required.then_some("UNDERSTUDY_REQUIRE=1")
    }
}

/// Says why the job is not protected; stops it if protection is required.
pub fn refuse(rt: &Runtime, why: &str) {
    if get(rt).process == ProcessNumber(0) {
        tell_refused(why, told::config().strict());
    } else {
        events::emit(Kind::Refused {
            reason: why.to_owned(),
        });
    }
    if told::config().strict().is_some() {
        recovery::end_together(rt, world::is_first_worker(rt), exit::REFUSED);
    }
}

/// Tells the user why the job is not protected (any more), and what follows.
pub fn say_refused(why: &str, loss: Loss) {
    tell_refused(why, loss.stops());
}

fn tell_refused(why: &str, strict: Option<&str>) {
    let outcome = strict.map_or_else(
        || "the program runs unprotected, on the workers only".into(),
        |setting| format!("the job stops ({setting})"),
    );
    sys::say(format_args!("{why}; {outcome}"));
    events::emit(Kind::Refused {
        reason: why.to_owned(),
    });
}

/// True if the job stops when memory gets short.
pub fn stops_for_memory() -> bool {
    Loss::Memory.stops().is_some()
}

/// Ends all checkpoints and recoveries; some rank has said why. All workers do this at the same
/// cut.
pub fn give_up_protection(rt: &Runtime, loss: Loss) {
    if loss.stops().is_some() {
        recovery::end_together(rt, world::is_first_worker(rt), exit::REFUSED);
    }
    world::update(rt, |world| world.protected = false);
    copies::discard(rt);
}
