//! Reports and consequences of missing protection.

use crate::Runtime;
use crate::world::{self, get};
use crate::{copies, events, process_info, recovery, requested_checkpoint, system_calls};
use understudy_catalogue::exit_status;
use understudy_formats::events::Kind;
use understudy_numbers::ProcessNumber;
use understudy_policy::cut_agreement::ProtectionLoss;
use understudy_settings::Require;
use understudy_settings::settings_files::with_places;

/// Returns the setting, if any, because of which the job stops after a loss.
fn stopping_setting(loss: ProtectionLoss) -> Option<&'static str> {
    let is_required = match process_info::config().require {
        Require::Never => false,
        Require::Start => loss == ProtectionLoss::Unsaved,
        Require::Always => true,
    };
    is_required.then_some("UNDERSTUDY_REQUIRE=1")
}

/// Reports why the job is not protected; stops the job if protection is required.
pub fn refuse(rt: &Runtime, why: &str) {
    if get(rt).process == ProcessNumber(0) {
        report(why, process_info::config().strict());
    } else {
        events::emit(Kind::Refused {
            reason: why.to_owned(),
        });
    }
    if process_info::config().strict().is_some() {
        recovery::end_together(rt, world::is_first_worker(rt), exit_status::REFUSED);
    }
}

/// Reports to the user why the job is not protected, and the consequence.
pub fn report_loss(why: &str, loss: ProtectionLoss) {
    report(why, stopping_setting(loss));
}

fn report(why: &str, strict: Option<&str>) {
    let outcome = strict.map_or_else(
        || "the program runs unprotected, on the workers only".into(),
        |setting| format!("the job stops ({setting})"),
    );
    system_calls::print_message(format_args!("{}; {outcome}", with_places(why)));
    events::emit(Kind::Refused {
        reason: why.to_owned(),
    });
}

/// True if the job stops when replicas do not fit into memory any more.
pub fn stops_for_memory() -> bool {
    stopping_setting(ProtectionLoss::Memory).is_some()
}

/// Ends protection: from now on there are no checkpoints and recoveries.
///
/// Ends the job instead if protection is required. All workers call this function at one cut, after
/// one worker has reported the reason.
pub fn give_up_protection(rt: &Runtime, loss: ProtectionLoss) {
    if stopping_setting(loss).is_some() {
        recovery::end_together(rt, world::is_first_worker(rt), exit_status::REFUSED);
    }
    requested_checkpoint::end();
    world::update(rt, |world| world.protected = false);
    copies::discard_all(rt);
}
