//! How launchers tell a process what it is: variables. The face has this very file.

/// How a job gets its name.
#[allow(dead_code, reason = "ckptd and the face read what they need")]
#[derive(Clone, Copy, Debug)]
pub enum JobName {
    /// A variable has it.
    Variable(&'static str),
    /// The launcher's own process, which is the parent, stands for it.
    Parent,
    /// Two numbers in variables: the batch job, and the step in it.
    Step(&'static str, &'static str),
}

/// How processes of several nodes find each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meeting {
    /// By a PMIx server.
    Pmix,
    /// By a PMI-1 server.
    Pmi1,
}

/// The variables of a launcher.
#[allow(dead_code, reason = "ckptd and the face read what they need")]
#[derive(Clone, Copy, Debug)]
pub struct Launcher {
    pub job: JobName,
    pub rank: &'static str,
    /// Ranks of the job …
    pub size: &'static str,
    /// … and of this node, or of each (`2(x3),1`); equal texts if it is the only one.
    pub local_size: &'static str,
    /// The number of this node, where sizes of all are told.
    pub node: Option<&'static str>,
    /// The first of each node has 0.
    pub local_rank: &'static str,
    /// Meetings that it may offer, each with the variable that says so.
    meetings: &'static [(&'static str, Meeting)],
}

/// Open MPI's (and `starter`), MPICH's, and Slurm's srun. A launcher may have been started by one
/// that stands behind it here.
const LAUNCHERS: [Launcher; 3] = [
    Launcher {
        job: JobName::Variable("PMIX_NAMESPACE"),
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        local_size: "OMPI_COMM_WORLD_LOCAL_SIZE",
        node: None,
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        meetings: &[("PMIX_NAMESPACE", Meeting::Pmix)],
    },
    Launcher {
        job: JobName::Parent,
        rank: "PMI_RANK",
        size: "PMI_SIZE",
        local_size: "MPI_LOCALNRANKS",
        node: None,
        local_rank: "MPI_LOCALRANKID",
        meetings: &[("PMI_FD", Meeting::Pmi1)],
    },
    // srun(1), "OUTPUT ENVIRONMENT VARIABLES". A batch script has SLURM_NTASKS as well, but is not
    // in such a step.
    Launcher {
        job: JobName::Step("SLURM_JOB_ID", "SLURM_STEP_ID"),
        rank: "SLURM_PROCID",
        size: "SLURM_STEP_NUM_TASKS",
        local_size: "SLURM_STEP_TASKS_PER_NODE",
        node: Some("SLURM_NODEID"),
        local_rank: "SLURM_LOCALID",
        // srun --mpi=pmi2, --mpi=pmix.
        meetings: &[("PMI_FD", Meeting::Pmi1), ("PMIX_NAMESPACE", Meeting::Pmix)],
    },
];

impl Launcher {
    /// The one that has started a process in whose environment `variable` looks.
    pub fn of<V>(variable: impl Fn(&str) -> Option<V>) -> Option<&'static Launcher> {
        LAUNCHERS.iter().find(|launcher| {
            let names = [launcher.rank, launcher.size, launcher.local_size];
            names.iter().all(|name| variable(name).is_some())
        })
    }

    /// The meeting that it offers here.
    pub fn meeting<V>(&self, variable: impl Fn(&str) -> Option<V>) -> Option<Meeting> {
        let mut offered = self
            .meetings
            .iter()
            .filter(|(name, _)| variable(name).is_some());
        offered.next().map(|&(_, meeting)| meeting)
    }
}
