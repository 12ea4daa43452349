//! Whether the job is protected: what is said when it is not, and what follows.

use crate::world::{self, get};
use crate::{events, recovery, sys, told};
use ckptd::events::Kind;
use understudy_abi::exit;
use understudy_numbers::ProcessNumber;

/// Says why the job is not protected; stops it if protection is required.
pub fn refuse(why: &str) {
    if get().process == ProcessNumber(0) {
        tell_refused(why, told::config().strict());
    } else {
        events::emit(Kind::Refused { reason: why.to_owned() });
    }
    if told::config().strict().is_some() {
        recovery::end_together(world::is_first_worker(), exit::REFUSED);
    }
}

/// Tells the user why the job is not protected (any more), and what follows.
pub fn say_refused(why: &str) {
    tell_refused(why, told::config().require.then_some("UNDERSTUDY_REQUIRE=1"));
}

fn tell_refused(why: &str, strict: Option<&str>) {
    let outcome = strict.map_or_else(
        || "the program runs unprotected, on the workers only".into(),
        |setting| format!("the job stops ({setting})"),
    );
    sys::say(format_args!("{why}; {outcome}"));
    events::emit(Kind::Refused { reason: why.to_owned() });
}

/// No checkpoints any more, and no recovery; some rank has said why. All workers do this at the same cut.
pub fn give_up_protection() {
    if told::config().require {
        recovery::end_together(world::is_first_worker(), exit::REFUSED);
    }
    world::update(|world| world.protected = false);
}
