//! `ckptd`: the processes that stand beside the ranks of an understudy job.

use ckptd::host_options::HostOptions;
use ckptd::manual;
use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use understudy_daemon::{self as daemon, StartError};
use understudy_launch::guardian::{self, Program};
use understudy_launch::starter::{self, By, Plan};
use understudy_launch::{
    self as launch, Environment, ProcessContext, Streams, manager, preload_library,
};
use understudy_pmi::{Kind, Mpi};
use understudy_sockets::is_foreign;

/// Processes beside an understudy job: the daemon of a node, and the output relay of a rank.
#[derive(Parser)]
#[command(name = "ckptd", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const SERVE_STATUSES: &str = "Exit status:\n  \
    0  ended by a signal\n  \
    1  it cannot start; a message says why\n  \
    2  wrong usage\n  \
    3  another one serves the same socket";

#[derive(Subcommand)]
enum Command {
    /// Forward one rank's output so that every byte shows exactly once.
    ///
    /// Started by understudy's preloaded library, one per rank, with these descriptors: 3 and 4,
    /// the read ends of the pipes that are the rank's standard output and standard error (either
    /// may be closed); 1 and 2, where to forward them. Ends when both pipes have ended, not by a
    /// signal.
    Relay {
        /// The file shared with the rank, made if missing (in a memory file system such as
        /// /dev/shm).
        #[arg(long, value_name = "PATH")]
        ledger: PathBuf,
    },
    /// Keep the pools of spares of this node's jobs, until SIGTERM.
    ///
    /// Jobs find it by UNDERSTUDY_CKPTD, the path of its socket or tcp:ADDRESS:PORT, and do without
    /// it when it is not there. Prints a line for each address when it is ready. What happens is
    /// logged on standard error (UNDERSTUDY_LOG, default info).
    #[command(after_help = SERVE_STATUSES)]
    Serve(Serve),
    /// Start a program on this node, or on several, and be the process manager of its MPI library,
    /// without mpirun.
    ///
    /// When a process dies, all others initialise MPI anew, together with a spare or a new process
    /// in its place.
    Launch(Launch),
    /// Stand between a launcher and a process of a program, and start that process anew when it is
    /// needed.
    ///
    /// Started by understudy's preloaded library in place of each process that a launcher has
    /// started.
    #[command(hide = true)]
    Guardian {
        /// The program's file.
        file: PathBuf,
        /// Its name and its arguments.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Manage the processes of a job. Started by the first guardian on a node.
    #[command(hide = true)]
    Manage {
        /// The descriptor of the socket that it is called at.
        socket: i32,
        /// The job's directory.
        directory: PathBuf,
        /// Standard input tells of other nodes.
        #[arg(long)]
        has_duty: bool,
    },
    /// Let the nodes of a job find each other by their launcher.
    #[command(hide = true)]
    Meet {
        /// Standard input is what the others are to know.
        #[arg(long)]
        publish: bool,
    },
    /// Start the processes of a job on this host that was started on another one.
    #[command(hide = true)]
    Node,
    /// Write the man pages.
    Man {
        /// Where to; the directory is made.
        dir: PathBuf,
    },
}

#[derive(clap::Args)]
struct Serve {
    /// Where its socket is made, in a directory with mode 0700 [default:
    /// $XDG_RUNTIME_DIR/understudy/ckptd.socket, or /tmp/understudy-UID/ckptd.socket].
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Listen for other nodes, too; their clients must know a token.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "token_file")]
    listen: Option<SocketAddr>,

    /// Tokens, one of at least 16 characters in each line (mode 0600). Clients with different
    /// tokens do not see each other's jobs.
    #[arg(long, value_name = "FILE", requires = "listen")]
    token_file: Option<PathBuf>,

    /// Give out figures for Prometheus there, on this node only.
    #[arg(long, value_name = "127.0.0.1:PORT")]
    metrics: Option<SocketAddr>,

    /// Let jobs have new spares started in place of used ones (UNDERSTUDY_REPLENISH) only as long
    /// as all jobs together have fewer idle ones than this.
    #[arg(long, value_name = "COUNT")]
    most_spares: Option<u32>,

    /// End when standard input does, and with it who has started this.
    #[arg(long)]
    until_stdin_ends: bool,
}

#[derive(clap::Args)]
struct Launch {
    /// Workers: the processes that the program sees.
    #[arg(short, value_name = "WORKERS")]
    n: std::num::NonZeroU32,

    /// Processes that wait for a part; without one a new process is started when it is needed.
    #[arg(long, default_value_t = 1)]
    spares: u32,

    /// The layer's library [default: the one beside ckptd for --mpi, or libunderstudy.so].
    #[arg(long, value_name = "FILE")]
    preload: Option<PathBuf>,

    /// The MPI library of a program that opens it late, such as an interpreter (libmpi.so.40).
    #[arg(long, value_name = "FILE")]
    mpi: Option<PathBuf>,

    #[command(flatten)]
    hosts: HostOptions,

    /// How ranks are dealt out to hosts: `slot` fills one after the other, `node` gives one to each
    /// in turn.
    #[arg(long, value_name = "WHAT", default_value = "slot")]
    map_by: By,

    /// The program with its arguments.
    #[arg(required = true, trailing_var_arg = true)]
    program: Vec<OsString>,
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Relay { ledger } => {
            understudy_relay::run(&ledger);
            ExitCode::SUCCESS
        }
        Command::Serve(options) => serve(options),
        Command::Launch(options) => exit_with(launch(options)),
        Command::Guardian { file, arguments } => {
            exit_with(guardian::run(Program { file, arguments }))
        }
        Command::Manage {
            socket,
            directory,
            has_duty,
        } => exit_with(manage(socket, &directory, has_duty)),
        Command::Meet { publish } => exit_with(guardian::meet(publish)),
        Command::Node => exit_with(starter::run_on_host()),
        Command::Man { dir } => write_manual(&dir),
    }
}

fn exit_with(status: Result<i32, launch::Error>) -> ExitCode {
    match status {
        Ok(status) => ExitCode::from(status.clamp(0, 255) as u8),
        Err(error) => {
            eprintln!("understudy: {error}");
            ExitCode::FAILURE
        }
    }
}

fn launch(options: Launch) -> Result<i32, launch::Error> {
    let own = launch::own_program()?;
    let kind = match &options.mpi {
        Some(library) => Mpi::named(library)?.kind,
        None => Kind::OpenMpi,
    };
    let preload = options
        .preload
        .unwrap_or_else(|| own.with_file_name(preload_library(kind)));
    let plan = Plan {
        hosts: options.hosts.hosts()?,
        by: options.map_by,
        agent: options.hosts.agent()?,
        workers: options.n.get(),
        spares: options.spares,
        program: options.program,
        preload: preload.into(),
        mpi: options.mpi,
        context: ProcessContext {
            ckptd: own,
            environment: Environment::default(),
            streams: Streams::own()?,
        },
    };
    starter::run(&plan, |_| {})
}

fn manage(socket: i32, directory: &Path, has_duty: bool) -> Result<i32, launch::Error> {
    env_logger::Builder::from_env(env_logger::Env::new().filter_or("UNDERSTUDY_LOG", "warn"))
        .init();
    manager::manage(launch::inherited_socket(socket), directory, has_duty)
}

fn write_manual(dir: &Path) -> ExitCode {
    match manual::write(Arguments::command(), dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!(
                "ckptd: {}: {error}. Choose a directory that can be written to.",
                dir.display()
            );
            ExitCode::FAILURE
        }
    }
}

fn serve(options: Serve) -> ExitCode {
    let filter = env_logger::Env::new().filter_or("UNDERSTUDY_LOG", "info");
    env_logger::Builder::from_env(filter).init();
    let options = daemon::Options {
        socket: options.socket,
        listen: options.listen,
        token_file: options.token_file,
        metrics: options.metrics,
        most_spares: options.most_spares,
        until_stdin_ends: options.until_stdin_ends,
    };
    match daemon::serve(&options, &mut std::io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ckptd: {error}");
            ExitCode::from(if let StartError::Running(_) = error {
                3
            } else {
                1
            })
        }
    }
}

/// Replaces accept(2) for libpmix.
///
/// The port of libpmix on the loopback interface is open to every local user. A connection of
/// another user is closed and reported as none (`EAGAIN`), after which libpmix waits for the next
/// one; many other errors end its listening. Rust's standard library calls accept4(2) instead.
///
/// # Safety
/// As accept(2).
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
unsafe extern "C" fn accept(
    socket: libc::c_int,
    address: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
) -> libc::c_int {
    // SAFETY: accept4(2) as the caller calls accept(2); the new descriptor has no other owner.
    unsafe {
        let accepted = libc::accept4(socket, address, length, 0);
        if accepted >= 0 {
            let connection = OwnedFd::from_raw_fd(accepted);
            if is_foreign(&connection) {
                drop(connection);
                *libc::__errno_location() = libc::EAGAIN;
                return -1;
            }
            std::mem::forget(connection);
        }
        accepted
    }
}
