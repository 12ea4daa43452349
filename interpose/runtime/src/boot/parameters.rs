//! Parameters of Open MPI's components (MCA): the runtime's preferences, merged with the user's.
//!
//! The user sets a parameter in the environment (`OMPI_MCA_NAME`; `mpirun --mca` sets the variable)
//! or in a file. The runtime excludes two kinds of components: those that prevent a second
//! initialisation, and those whose results may differ after a recovery. Its exclusions are added to
//! the user's list of exclusions. A list of components that the user selects is not changed.
#![allow(unsafe_code)]

use crate::process_info::process;
use crate::reinit;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use understudy_catalogue::message;
use understudy_mpi::library;
use understudy_numbers::ProcessNumber;

/// Prefix of a parameter's name in the environment.
const PREFIX: &str = "OMPI_MCA_";
/// Marks a list of excluded components.
const EXCLUSION: char = '^';

/// Preferred value of each parameter: exclusions, a selected component, or another value.
const PREFERENCES: &[(&str, &str)] = &[
    // UCX and OFI open libraries that cannot be closed again. Probing them takes a second.
    ("pml", "ob1"),
    ("btl", "^ofi,uct,openib,usnic"),
    ("mtl", "^ofi,psm2,portals4"),
    // Reductions of these components depend on the processes that share a node, which a recovery
    // may change.
    ("coll", "^han,hcoll,portals4,cuda,ucc"),
    // Idle spares and oversubscribed workers yield.
    ("mpi_yield_when_idle", "1"),
    // No hooks in the memory functions of the MPI side's libc, whose mmap the preload library has
    // patched.
    ("memory", "^patcher"),
    ("patcher", "^overwrite"),
    // Crashes are handled by the program's own handlers.
    ("opal_signal", ""),
    ("osc", "^ucx,portals4"),
];

/// Preferences that differ in Open MPI 4.
///
/// Open MPI 4 would use its component `rdma`. On a node without RDMA, this component creates no
/// windows or crashes.
const PREFERENCES_OF_4: &[(&str, &str)] = &[("osc", "pt2pt")];

/// Components that open libraries which cannot be closed again, by parameter.
const UNCLOSABLE: &[(&str, &[&str])] = &[
    ("pml", &["ucx", "cm"]),
    ("btl", &["ofi", "uct", "openib", "usnic"]),
    ("mtl", &["ofi", "psm2", "portals4"]),
    ("osc", &["ucx"]),
];

/// Parameters that select networks.
const NETWORK: [&str; 4] = ["pml", "btl", "mtl", "osc"];

/// Sets the parameters for the MPI library, which has no thread yet.
///
/// The library chooses the network itself if `is_native`. Returns true if a component may be used
/// that drives a network device.
pub fn set(is_native: bool) -> bool {
    let mut may_be_native = is_native;
    if is_native {
        reinit::expect_driver();
    }
    let of_files = parameters_of_files();
    let is_4 = library::version().0.starts_with("Open MPI v4");
    let differing = if is_4 { PREFERENCES_OF_4 } else { &[] };
    for &(name, preference) in PREFERENCES {
        let has_name = |(other, _): &&(&str, &str)| *other == name;
        let preference = differing
            .iter()
            .find(has_name)
            .map_or(preference, |(_, value)| value);
        let variable = format!("{PREFIX}{name}");
        let user_value = std::env::var(&variable)
            .ok()
            .or_else(|| of_files.get(name).cloned());
        if let Some(user_value) = &user_value {
            may_be_native |= open_unclosable(name, user_value);
        }
        if is_native && NETWORK.contains(&name) {
            continue;
        }
        let value = user_value.map_or_else(
            || preference.to_owned(),
            |user_value| merge(&user_value, preference),
        );
        set_variable(&variable, &value);
    }
    may_be_native
}

/// Sets a variable of another library, merged with the user's value.
pub fn set_merged(name: &str, preference: &str) {
    let user_value = std::env::var(name);
    let value = user_value.map_or_else(
        |_| preference.to_owned(),
        |user_value| merge(&user_value, preference),
    );
    set_variable(name, &value);
}

/// Adds names to a variable that is a list of names.
pub fn add_to_list(name: &str, names: &str) {
    let user_value = std::env::var(name).unwrap_or_default();
    let user_value = components(&user_value);
    let added: Vec<&str> = user_value.chain(components(names)).collect();
    set_variable(name, &added.join(","));
}

fn set_variable(name: &str, value: &str) {
    if let (Ok(name), Ok(value)) = (CString::new(name), CString::new(value)) {
        // SAFETY: the MPI library has no thread yet.
        unsafe { library::set_variable(&name, Some(&value)) };
    }
}

fn components(list: &str) -> impl Iterator<Item = &str> {
    list.trim_start_matches(EXCLUSION)
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
}

/// Merges the user's value with the runtime's preference.
///
/// The user's value is kept if it selects components instead of excluding some, or if it excludes
/// what the runtime prefers. Two lists of exclusions are united. In all other cases the preference
/// is returned.
fn merge(user_value: &str, preference: &str) -> String {
    let user_value = user_value.trim();
    if !user_value.starts_with(EXCLUSION) {
        return user_value.to_owned();
    }
    let is_excluded = |name: &&str| components(user_value).any(|other| other == *name);
    if preference.starts_with(EXCLUSION) {
        let added = components(preference).filter(|name| !is_excluded(name));
        let all: Vec<&str> = components(user_value).chain(added).collect();
        format!("{EXCLUSION}{}", all.join(","))
    } else if components(preference).any(|name| is_excluded(&name)) {
        user_value.to_owned()
    } else {
        preference.to_owned()
    }
}

/// Requests that libraries are opened in advance if the user selects a component of [`UNCLOSABLE`].
///
/// Returns true if the user does.
fn open_unclosable(name: &str, user_value: &str) -> bool {
    if user_value.starts_with(EXCLUSION) {
        return false;
    }
    let unclosable = UNCLOSABLE
        .iter()
        .find(|(other, _)| *other == name)
        .map_or(&[][..], |(_, names)| names);
    let Some(component) = components(user_value).find(|component| unclosable.contains(component))
    else {
        return false;
    };
    reinit::expect_driver();
    if process() == ProcessNumber(0) {
        crate::system_calls::print_message(message::libraries_opened_in_advance(
            PREFIX, name, component,
        ));
    }
    true
}

/// Returns the parameters in Open MPI's files; earlier [`files`] have precedence.
fn parameters_of_files() -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for file in files() {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        for (name, value) in text.lines().filter_map(parameter) {
            all.entry(name).or_insert(value);
        }
    }
    all
}

/// Parses a line `NAME = VALUE`.
fn parameter(line: &str) -> Option<(String, String)> {
    let line = line.split('#').next().unwrap_or("").trim();
    let (name, value) = line.split_once('=')?;
    let value = value.trim().trim_matches('"');
    Some((name.trim().to_owned(), value.to_owned()))
}

/// Returns the paths of Open MPI's files of parameters.
///
/// A list of files in the environment replaces the default files: the user's file, that of the
/// installation, and that of the distribution.
fn files() -> Vec<PathBuf> {
    const NAMES_OF_LIST: [&str; 2] = ["mca_base_param_files", "mca_param_files"];
    let lists = NAMES_OF_LIST
        .iter()
        .filter_map(|name| std::env::var_os(format!("{PREFIX}{name}")));
    if let Some(list) = lists.into_iter().next() {
        let text = list.to_string_lossy().replace(',', ":");
        return text.split(':').map(PathBuf::from).collect();
    }
    const SYSTEM: &str = "openmpi-mca-params.conf";
    let home =
        std::env::var_os("HOME").map(|home| Path::new(&home).join(".openmpi/mca-params.conf"));
    let library = std::fs::canonicalize(library::file()).unwrap_or_default();
    let prefix = std::env::var_os("OPAL_PREFIX").map(PathBuf::from);
    let above = library.ancestors().skip(2).take(1).map(Path::to_owned);
    let installations = prefix.into_iter().chain(above);
    let of_installation = installations.map(|prefix| prefix.join("etc").join(SYSTEM));
    let of_distribution = Path::new("/etc/openmpi").join(SYSTEM);
    home.into_iter()
        .chain(of_installation)
        .chain([of_distribution])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{merge, parameter};

    #[test]
    fn exclusions_of_user_and_runtime_are_united() {
        assert_eq!(merge("^ofi", "^ofi,uct,openib"), "^ofi,uct,openib");
        assert_eq!(merge("^tcp, sm", "^ofi"), "^tcp,sm,ofi");
        assert_eq!(merge("^cm", "ob1"), "ob1");
        assert_eq!(merge("^ob1", "ob1"), "^ob1");
        assert_eq!(merge("self,ofi", "^ofi"), "self,ofi");
        assert_eq!(merge("0", "1"), "0");
    }

    #[test]
    fn lines_of_files_are_read() {
        let read = |line| parameter(line).map(|(name, value)| format!("{name}:{value}"));
        assert_eq!(read(" btl = ^ofi # slow").as_deref(), Some("btl:^ofi"));
        assert_eq!(read("mtl=\"^ofi\"").as_deref(), Some("mtl:^ofi"));
        assert_eq!(read("# btl = self"), None);
        assert_eq!(read(""), None);
    }
}
