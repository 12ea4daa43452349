//! Variables by which launchers describe a process to itself.
//!
//! The preload library includes this file.

/// Source of a job's name.
#[allow(dead_code, reason = "ckptd and the preload library read only a part")]
#[derive(Clone, Copy, Debug)]
pub enum JobName {
    /// A variable contains the name.
    Variable(&'static str),
    /// The launcher's own process, which is the parent, identifies the job.
    Parent,
    /// Two variables with numbers: the batch job and its step.
    Step(&'static str, &'static str),
}

/// Service by which processes of several nodes exchange the leader's address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressService {
    /// A PMIx server.
    Pmix,
    /// A PMI-1 server.
    Pmi1,
}

/// The variables of a launcher.
#[allow(dead_code, reason = "ckptd and the preload library read only a part")]
#[derive(Clone, Copy, Debug)]
pub struct Launcher {
    pub job: JobName,
    pub rank: &'static str,
    /// Variable for the number of ranks of the job.
    pub size: &'static str,
    /// Variable for the number of ranks of this node, or of each node (`2(x3),1`).
    ///
    /// The text of this variable equals that of `size` if the job has one node.
    pub local_size: &'static str,
    /// Variable for the number of this node, if `local_size` lists all nodes.
    pub node: Option<&'static str>,
    /// Variable for the rank within the node; the first rank has 0.
    pub local_rank: &'static str,
    /// Services that the launcher may offer, each with the variable that announces it.
    services: &'static [(&'static str, AddressService)],
}

/// Open MPI's mpirun (and `starter`), MPICH's mpiexec, and Slurm's srun.
///
/// A launcher may have been started by another launcher, which is later in this list.
const LAUNCHERS: [Launcher; 3] = [
    Launcher {
        job: JobName::Variable("PMIX_NAMESPACE"),
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        local_size: "OMPI_COMM_WORLD_LOCAL_SIZE",
        node: None,
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        services: &[("PMIX_NAMESPACE", AddressService::Pmix)],
    },
    Launcher {
        job: JobName::Parent,
        rank: "PMI_RANK",
        size: "PMI_SIZE",
        local_size: "MPI_LOCALNRANKS",
        node: None,
        local_rank: "MPI_LOCALRANKID",
        services: &[("PMI_FD", AddressService::Pmi1)],
    },
    // srun(1), "OUTPUT ENVIRONMENT VARIABLES". A batch script has SLURM_NTASKS as well, but does
    // not run in a step of srun.
    Launcher {
        job: JobName::Step("SLURM_JOB_ID", "SLURM_STEP_ID"),
        rank: "SLURM_PROCID",
        size: "SLURM_STEP_NUM_TASKS",
        local_size: "SLURM_STEP_TASKS_PER_NODE",
        node: Some("SLURM_NODEID"),
        local_rank: "SLURM_LOCALID",
        // srun --mpi=pmi2, --mpi=pmix.
        services: &[
            ("PMI_FD", AddressService::Pmi1),
            ("PMIX_NAMESPACE", AddressService::Pmix),
        ],
    },
];

impl Launcher {
    /// Returns the launcher that has set the variables which `variable` looks up.
    pub fn of<V>(variable: impl Fn(&str) -> Option<V>) -> Option<&'static Launcher> {
        LAUNCHERS.iter().find(|launcher| {
            let names = [launcher.rank, launcher.size, launcher.local_size];
            names.iter().all(|name| variable(name).is_some())
        })
    }

    /// Returns the first service that the launcher offers to this process.
    pub fn address_service<V>(
        &self,
        variable: impl Fn(&str) -> Option<V>,
    ) -> Option<AddressService> {
        let mut offered = self
            .services
            .iter()
            .filter(|(name, _)| variable(name).is_some());
        offered.next().map(|&(_, service)| service)
    }
}
