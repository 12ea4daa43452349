//! Check of the container in which jobs run.

use super::Check;
use std::path::Path;

/// Containers by the variables that they set for their processes.
const VARIABLES: [(&str, &str); 3] = [
    ("APPTAINER_CONTAINER", "Apptainer"),
    ("SINGULARITY_CONTAINER", "Singularity"),
    ("container", "a container"),
];
/// Containers by files that they create.
const FILES: [(&str, &str); 2] = [("/run/.containerenv", "Podman"), ("/.dockerenv", "Docker")];

/// Names the container, if there is one.
pub fn check() -> Check {
    let by_variable = VARIABLES
        .iter()
        .find(|(variable, _)| std::env::var_os(variable).is_some());
    let by_file = || FILES.iter().find(|(file, _)| Path::new(file).exists());
    let found = by_variable.or_else(by_file);
    Check::ok("container", found.map_or("none", |(_, name)| name))
}
