//! The watch for hangs that the settings demand.

use understudy_protocol::{HangLimits, JobWatch};
use understudy_settings::Config;

/// Returns the watch; `None` if hangs are not reported.
///
/// The processes of the program report wrong settings.
pub fn configured_watch() -> Option<JobWatch> {
    let config = Config::read(|name| std::env::var(name).ok()).ok()?;
    let limits = HangLimits::new(config.hang_after?);
    Some(JobWatch::new(limits, config.replaces_hanging))
}
