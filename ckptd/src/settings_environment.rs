//! Settings from files, in the environment.
#![allow(unsafe_code)]

use understudy_settings::FILES_READ;
use understudy_settings::settings_files::{additions, places_of};

/// Adds settings of the site's and the user's file to the environment of this process.
///
/// Variables that are set remain as they are. Processes that this one starts do not read the files
/// again. Must be called before a thread is started.
///
/// # Errors
/// Fails as [`additions`] does; the environment is then unchanged.
pub fn add_settings_files() -> Result<(), String> {
    let added = additions(|name| std::env::var_os(name)?.into_string().ok())?;
    let places = places_of(&added);
    let values = added.iter().map(|(variable, it)| (*variable, &*it.value));
    for (variable, value) in values.chain([(FILES_READ, &*places)]) {
        // SAFETY: this process has no other thread, which could read the environment.
        unsafe { std::env::set_var(variable, value) };
    }
    Ok(())
}
