//! The promises hold under every launcher and with every MPI library that is supported.

mod batch;
mod cluster_pages;
mod debian_mpich;
mod guardian;
mod intel_mpi;
mod mpich;
mod mpich_vendors;
mod older;
mod process_manager;
mod reinit;
pub mod run;
mod slurm;
