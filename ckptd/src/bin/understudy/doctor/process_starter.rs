//! The starter of the processes, chosen as by `understudy run`, and its checks.

use super::{Arguments, Check};
use crate::mpi;
use crate::run::starts_by_ckptd;

/// The starter of a job's processes.
pub enum Starter {
    /// Ckptd itself, with the command that starts processes on other hosts.
    Ckptd { agent: String },
    /// Open MPI's launcher, with its options.
    Mpirun(String),
}

impl Starter {
    /// Returns the choice of `understudy run`.
    pub fn of(arguments: &Arguments) -> Self {
        let program = arguments.program.first().map(AsRef::as_ref);
        let has_hosts = !arguments.host.is_empty();
        match starts_by_ckptd(arguments.mpirun.is_some(), has_hosts, program) {
            true => Self::Ckptd {
                agent: arguments.agent.clone(),
            },
            false => Self::Mpirun(arguments.mpirun.clone().unwrap_or_else(|| "mpirun".into())),
        }
    }

    pub fn checks(&self) -> Vec<Check> {
        let found = match self {
            Self::Ckptd { .. } => Check::ok(
                "launcher",
                "ckptd, which is part of understudy; no mpirun is needed",
            ),
            Self::Mpirun(command) => open_mpi(command),
        };
        let settings = settings_of_open_mpi();
        std::iter::once(found).chain(settings).collect()
    }
}

/// A setting of Open MPI that some values make unsuitable for a protected job.
struct MpiSetting {
    /// Name of the MCA parameter.
    name: &'static str,
    is_unsuitable: fn(&str) -> bool,
    reason: &'static str,
}

/// Checks for harmful settings of Open MPI in the environment.
fn settings_of_open_mpi() -> Vec<Check> {
    let mut checks = Vec::new();
    let settings = [
        MpiSetting {
            name: "pml",
            is_unsuitable: |value| value != "ob1",
            reason: "MPI is initialised again after a failure, which has been tested with the \
                     messaging layer ob1 only",
        },
        MpiSetting {
            name: "coll",
            is_unsuitable: |value| !value.starts_with('^') || !value.contains("han"),
            reason: "results of the collectives of `han` depend on which ranks share a node, which \
                     a recovery may change",
        },
        MpiSetting {
            name: "btl",
            is_unsuitable: |value| {
                value
                    .split(',')
                    .any(|name| ["ofi", "uct", "openib"].contains(&name))
            },
            reason: "that transport has not been tested",
        },
    ];
    for MpiSetting {
        name,
        is_unsuitable,
        reason,
    } in settings
    {
        let variable = format!("OMPI_MCA_{name}");
        if let Ok(value) = std::env::var(&variable)
            && is_unsuitable(&value)
        {
            let finding = format!("{variable}={value}: {reason}");
            checks.push(Check::failure(
                "Open MPI's settings",
                finding,
                format!("unset {variable}; understudy sets what it needs"),
            ));
        }
    }
    checks
}

fn open_mpi(command: &str) -> Check {
    const NAME: &str = "mpirun";
    const REMEDY: &str =
        "put the directory of Open MPI's programs on the PATH, or name the launcher with --mpirun";
    let words = shell_words::split(command).unwrap_or_default();
    let Some(name) = words.first() else {
        return Check::failure(NAME, "no launcher is named", REMEDY);
    };
    let Some(path) = mpi::launcher(name.as_ref()) else {
        return Check::failure(NAME, format!("there is no {name} on the PATH"), REMEDY);
    };
    let found = match mpi::Installation::query(&path) {
        Ok(found) => found,
        Err(error) => return Check::failure(NAME, format!("{}: {error}", path.display()), REMEDY),
    };
    match found.problem() {
        Some(problem) => Check::failure(NAME, format!("{}: {problem}", path.display()), REMEDY),
        None => Check::ok(NAME, format!("{}, {}", found.description, path.display())),
    }
}
