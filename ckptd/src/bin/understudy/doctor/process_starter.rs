//! The launcher that `understudy run` would choose, and the checks of `doctor` on it.

use super::{Arguments, Check};
use crate::mpi;

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
        match &arguments.mpirun {
            Some(mpirun) => Self::Mpirun(mpirun.clone()),
            None => Self::Ckptd {
                agent: arguments.agent.clone(),
            },
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
        let settings = mca_parameters();
        std::iter::once(found).chain(settings).collect()
    }
}

/// A parameter of Open MPI's components (MCA) that can make a job impossible to protect.
struct McaParameter {
    name: &'static str,
    is_unsuitable: fn(&str) -> bool,
    reason: &'static str,
}

const MCA_PARAMETERS: [McaParameter; 3] = [
    McaParameter {
        name: "pml",
        is_unsuitable: |value| value != "ob1",
        reason: "MPI is initialised again after a failure, which has been tested with the \
                 messaging layer ob1 only",
    },
    McaParameter {
        name: "coll",
        is_unsuitable: |value| selects(value, &["han", "hcoll", "portals4", "cuda", "ucc"]),
        reason: "results of these collectives depend on which ranks share a node, which a recovery \
                 may change",
    },
    McaParameter {
        name: "btl",
        is_unsuitable: |value| selects(value, &["ofi", "uct", "openib", "usnic"]),
        reason: "recoveries have not been tested with these transports",
    },
];

/// True if a list selects one of these components.
///
/// A list that begins with `^` excludes components. The runtime adds its own exclusions to such a
/// list.
fn selects(list: &str, components: &[&str]) -> bool {
    !list.starts_with('^')
        && list
            .split(',')
            .any(|name| components.contains(&name.trim()))
}

/// Checks for harmful parameters of Open MPI in the environment.
fn mca_parameters() -> Vec<Check> {
    let check = |parameter: &McaParameter| {
        let variable = format!("OMPI_MCA_{}", parameter.name);
        let value = std::env::var(&variable).ok()?;
        (parameter.is_unsuitable)(&value).then(|| {
            Check::failure(
                "Open MPI's settings",
                format!("{variable}={value}: {}", parameter.reason),
                format!("unset {variable}; understudy sets what it needs"),
            )
        })
    };
    MCA_PARAMETERS.iter().filter_map(check).collect()
}

fn open_mpi(command: &str) -> Check {
    const NAME: &str = "mpirun";
    const REMEDY: &str =
        "put the directory of Open MPI's programs on the PATH, or name the launcher with --mpirun";
    let words = match shell_words::split(command) {
        Ok(words) => words,
        Err(error) => return Check::failure(NAME, format!("--mpirun: {error}"), REMEDY),
    };
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

#[cfg(test)]
mod tests {
    use super::selects;

    #[test]
    fn exclusions_select_nothing() {
        let unsuitable = ["ofi", "uct"];
        assert!(selects("self,sm,ofi", &unsuitable));
        assert!(selects("self, uct", &unsuitable));
        assert!(!selects("self,sm,tcp", &unsuitable));
        assert!(!selects("^smcuda,ofi", &unsuitable));
    }
}
