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

/// The variables of a launcher.
#[allow(dead_code, reason = "ckptd and the face read what they need")]
#[derive(Clone, Copy, Debug)]
pub struct Launcher {
    pub job: JobName,
    pub rank: &'static str,
    /// Ranks of the job …
    pub size: &'static str,
    /// … and of this node; equal texts if it is the only one.
    pub local_size: &'static str,
    /// The first of each node has 0.
    pub local_rank: &'static str,
    /// Processes of several nodes can find each other by it.
    pub has_meetings: bool,
}

/// Open MPI's (and `starter`), MPICH's, and Slurm's srun. A launcher may have been started by one that stands behind it here.
const LAUNCHERS: [Launcher; 3] = [
    Launcher {
        job: JobName::Variable("PMIX_NAMESPACE"),
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        local_size: "OMPI_COMM_WORLD_LOCAL_SIZE",
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        has_meetings: true,
    },
    Launcher {
        job: JobName::Parent,
        rank: "PMI_RANK",
        size: "PMI_SIZE",
        local_size: "MPI_LOCALNRANKS",
        local_rank: "MPI_LOCALRANKID",
        has_meetings: false,
    },
    // srun(1), "OUTPUT ENVIRONMENT VARIABLES". A batch script has SLURM_NTASKS as well, but is not in such a step.
    Launcher {
        job: JobName::Step("SLURM_JOB_ID", "SLURM_STEP_ID"),
        rank: "SLURM_PROCID",
        size: "SLURM_STEP_NUM_TASKS",
        local_size: "SLURM_STEP_TASKS_PER_NODE",
        local_rank: "SLURM_LOCALID",
        has_meetings: false,
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
}
