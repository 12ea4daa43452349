//! Tests whose jobs need the machine for themselves.

mod aloof;
mod anywhere;
mod auto_interval;
mod checkpoint_watchdog;
mod daemon;
mod distributions;
mod doctor;
mod guardian;
mod journal_calls;
mod left_behind;
mod manager;
mod observers;
mod output;
mod owners;
mod packaging;
mod refused_programs;
mod run;
mod slurm;
mod soak;
mod status;
mod stress;
mod warn;
