//! Whether the job is protected: what is said when it is not, and what follows.

use crate::recovery::Runtime;
use crate::world::{self, get};
use crate::{events, recovery, sys, told};
use ckptd::events::Kind;
use understudy_abi::exit;
use understudy_numbers::ProcessNumber;

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
pub fn say_refused(why: &str) {
    tell_refused(
        why,
        told::config().require.then_some("UNDERSTUDY_REQUIRE=1"),
    );
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

/// No checkpoints any more, and no recovery; some rank has said why. All workers do this at the same cut.
pub fn give_up_protection(rt: &Runtime) {
    if told::config().require {
        recovery::end_together(rt, world::is_first_worker(rt), exit::REFUSED);
    }
    world::update(rt, |world| world.protected = false);
}
