//! `ckptd`: the processes that stand beside the ranks of an understudy job.

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Helper processes of an understudy job. Today that is the output relay.
#[derive(Parser)]
#[command(name = "ckptd", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Forward one rank's output so that every byte shows exactly once.
    ///
    /// Started by understudy's preloaded library, one per rank, with these descriptors: 3 and 4, the
    /// read ends of the pipes that are the rank's standard output and standard error (either may be
    /// closed); 1 and 2, where to forward them. Ends when both pipes have ended, not by a signal.
    Relay {
        /// The file shared with the rank, made if missing (in a memory file system such as /dev/shm).
        #[arg(long, value_name = "PATH")]
        ledger: PathBuf,
    },
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Relay { ledger } => ckptd::relay::run(&ledger),
    }
    ExitCode::SUCCESS
}
