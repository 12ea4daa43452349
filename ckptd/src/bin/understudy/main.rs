//! `understudy`: the user's program for understudy jobs, with one module for each command.

mod accept;
mod advise;
mod allocation;
mod clean;
mod completions;
mod doctor;
mod drain;
mod events;
mod explain;
mod inspect;
mod man;
mod mpi;
mod node;
mod outcome;
mod product_files;
mod replace;
mod report;
mod run;
mod simulate;
mod status;
mod warn;

use ckptd::settings_environment::add_settings_files;
use clap::{CommandFactory, Parser, Subcommand};
use outcome::{Failure, Outcome, USAGE};
use std::ffi::OsString;
use std::process::ExitCode;

/// Run MPI programs that survive the failure of ranks, and inspect such jobs.
#[derive(Parser)]
#[command(name = "understudy", version, arg_required_else_help = true)]
#[command(after_help = outcome::STATUSES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// Makes the enum of all commands from their modules, and the dispatch to `run`.
///
/// Each module has its `Arguments`.
macro_rules! commands {
    ($($name:ident => $module:ident,)*) => {
        #[derive(Subcommand)]
        enum Command {
            $($name($module::Arguments),)*
        }

        impl Command {
            fn run(self) -> Outcome {
                match self {
                    $(Self::$name(arguments) => arguments.run(),)*
                }
            }
        }
    };
}

// In the order of the help text.
commands! {
    Run => run,
    Status => status,
    Doctor => doctor,
    Accept => accept,
    Advise => advise,
    Simulate => simulate,
    Events => events,
    Explain => explain,
    Report => report,
    Inspect => inspect,
    Warn => warn,
    Replace => replace,
    Drain => drain,
    Clean => clean,
    Completions => completions,
    Man => man,
}

fn main() -> ExitCode {
    let command = Arguments::parse_from(words()).command;
    let prepared = add_settings_files().map_err(|why| Failure::with_status(USAGE, why));
    start_log();
    match prepared.and_then(|()| command.run()) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

/// Returns the command line, with `-n` in place of mpirun's `-np` among the options.
fn words() -> Vec<OsString> {
    let mut is_program_argument = false;
    let own = |word: OsString| {
        is_program_argument |= word == "--";
        if word == "-np" && !is_program_argument {
            "-n".into()
        } else {
            word
        }
    };
    std::env::args_os().map(own).collect()
}

/// Returns clap's description of the command line, for completions and man pages.
fn grammar() -> clap::Command {
    Arguments::command()
}

/// Starts logging on standard error, filtered by the variable that the ranks use.
fn start_log() {
    use std::io::Write;
    let filter = env_logger::Env::new().filter_or("UNDERSTUDY_LOG", "warn");
    let mut builder = env_logger::Builder::from_env(filter);
    builder
        .format(|out, record| writeln!(out, "understudy: {}: {}", record.target(), record.args()));
    builder.init();
}
