//! `ckptd`: processes beside the ranks of an understudy job.

use ckptd::host_options::HostOptions;
use ckptd::manual;
use ckptd::settings_environment::add_settings_files;
use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use understudy_catalogue::exit_status;
use understudy_daemon::{self as daemon, StartError};
use understudy_launch::guardian::{self, Program};
use understudy_launch::starter::{self, Plan, RankOrder};
use understudy_launch::{self as launch, Environment, Streams, manager, preload_library};
use understudy_pmi::{MpiKind, MpiLibrary};
use understudy_settings::{ports_of, spares_of};
use understudy_sockets::is_other_user;

/// Processes beside an understudy job: a node's daemon, and the output relay of a rank.
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
    3  another daemon serves the same socket";

#[derive(Subcommand)]
enum Command {
    /// Forward one rank's output so that every byte is printed exactly once.
    ///
    /// Started by understudy's preload library, one relay per rank, with these descriptors: 3 and
    /// 4, the read ends of the pipes that are the rank's standard output and standard error (either
    /// may be closed); 1 and 2, the destinations. Exits when both pipes have reached their end, not
    /// on a signal.
    Relay {
        /// File shared with the rank, in a memory file system such as /dev/shm. Created if missing.
        #[arg(long, value_name = "PATH")]
        ledger: PathBuf,
    },
    /// Manage the pools of spares of this node's jobs, until SIGTERM.
    ///
    /// Jobs find the daemon by UNDERSTUDY_DAEMON, the path of its socket or tcp:ADDRESS:PORT, and
    /// run without it if it is not running. Prints a line for each address when it is ready. Logs
    /// its events on standard error (UNDERSTUDY_LOG, default info).
    #[command(after_help = SERVE_STATUSES)]
    Serve(Serve),
    /// Start a program on this node, or on several, without mpirun. Serve its MPI library
    /// in place of a launcher.
    ///
    /// The failure of a process makes all others initialise MPI again, together with a spare or a
    /// new process that replaces the failed one.
    Launch(Launch),
    /// Start a process of a program for a launcher, and restart it when needed.
    ///
    /// Started by understudy's preload library in place of each process that a launcher has
    /// started.
    #[command(hide = true)]
    Guardian {
        /// File of the program.
        file: PathBuf,
        /// Name and arguments of the program.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Manage the processes of a job. Started by the first guardian on a node.
    #[command(hide = true)]
    Manage {
        /// Descriptor of the socket on which the manager listens.
        socket: i32,
        /// Directory of the job.
        directory: PathBuf,
        /// Standard input describes the other nodes.
        #[arg(long)]
        has_duty: bool,
        /// Descriptor of the pipe to the keeper of the node's fence.
        #[arg(long)]
        keeper: Option<i32>,
    },
    /// Exchange the addresses of a job's nodes by their launcher.
    #[command(hide = true)]
    Meet {
        /// Standard input is the address to publish to the other nodes.
        #[arg(long)]
        publish: bool,
    },
    /// Start the processes on this host of a job that was started on another host.
    #[command(hide = true)]
    Node,
    /// Hold the fence of a node: the node's processes die with this one. Started by the manager.
    #[command(hide = true)]
    Fence {
        /// Directory of the job.
        directory: PathBuf,
    },
    /// Write the man pages.
    Man {
        /// Target directory; created if missing.
        dir: PathBuf,
    },
}

#[derive(clap::Args)]
struct Serve {
    /// Path of the socket, in a directory with mode 0700 [default:
    /// $XDG_RUNTIME_DIR/understudy/ckptd.socket, or /tmp/understudy-UID/ckptd.socket].
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Listen for other nodes as well; their clients need a token. Port 0 is one of
    /// UNDERSTUDY_PORTS, or any port.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "token_file")]
    listen: Option<SocketAddr>,

    /// File with tokens, one of at least 16 characters in each line (mode 0600). Clients with
    /// different tokens do not see each other's jobs.
    #[arg(long, value_name = "FILE", requires = "listen")]
    token_file: Option<PathBuf>,

    /// Serve metrics for Prometheus at this address, on this node only.
    #[arg(long, value_name = "127.0.0.1:PORT")]
    metrics: Option<SocketAddr>,

    /// Limit new spares in place of used ones (UNDERSTUDY_REPLENISH). They are started only while
    /// all jobs together have fewer idle spares than this.
    #[arg(long, value_name = "COUNT")]
    most_spares: Option<u32>,

    /// Exit when standard input ends, and so with the process that started this one. The directory
    /// of the socket is then removed if it is empty.
    #[arg(long)]
    until_stdin_ends: bool,
}

#[derive(clap::Args)]
struct Launch {
    /// Number of workers, the processes that the program sees.
    #[arg(short, value_name = "WORKERS")]
    n: std::num::NonZeroU32,

    /// Number of spares, which replace failed workers. Without a spare, a new process is started
    /// [default: UNDERSTUDY_SPARES, or 1].
    #[arg(long)]
    spares: Option<u32>,

    /// Preload library [default: the one beside ckptd for --mpi, or libunderstudy.so].
    #[arg(long, value_name = "FILE")]
    preload: Option<PathBuf>,

    /// MPI library of a program that opens it late, such as an interpreter (libmpi.so.40).
    #[arg(long, value_name = "FILE")]
    mpi: Option<PathBuf>,

    #[command(flatten)]
    hosts: HostOptions,

    /// Placement of ranks on hosts. `slot` fills one host after the other, `node` gives one rank to
    /// each host in turn.
    #[arg(long, value_name = "WHAT", default_value = "slot")]
    map_by: RankOrder,

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
        Command::Launch(options) => exit_with(launch(options), exit_status::NOT_STARTED),
        Command::Guardian { file, arguments } => exit_with(
            guardian::run(Program { file, arguments }, add_settings_files()),
            exit_status::SYSTEM_REFUSAL,
        ),
        Command::Manage {
            socket,
            directory,
            has_duty,
            keeper,
        } => exit_with(
            manage(socket, &directory, has_duty, keeper),
            exit_status::SYSTEM_REFUSAL,
        ),
        Command::Meet { publish } => {
            exit_with(guardian::meet(publish), exit_status::SYSTEM_REFUSAL)
        }
        Command::Node => exit_with(starter::run_on_host(), exit_status::SYSTEM_REFUSAL),
        Command::Fence { directory } => {
            exit_with(launch::keep_fence(&directory), exit_status::SYSTEM_REFUSAL)
        }
        Command::Man { dir } => write_manual(&dir),
    }
}

/// Prints the error, if there is one; `failed` is the exit status of an error.
fn exit_with(status: Result<i32, launch::Error>, failed: i32) -> ExitCode {
    match status {
        Ok(status) => ExitCode::from(status.clamp(0, 255) as u8),
        Err(error) => {
            launch::print_message(error);
            ExitCode::from(failed as u8)
        }
    }
}

fn launch(options: Launch) -> Result<i32, launch::Error> {
    add_settings_files().map_err(launch::Error::SettingsFile)?;
    let own_program = launch::own_program()?;
    let kind = match &options.mpi {
        Some(library) => MpiLibrary::named(library)?.kind,
        None => MpiKind::OpenMpi,
    };
    let preload = options
        .preload
        .unwrap_or_else(|| own_program.with_file_name(preload_library(kind)));
    let own_spares = || spares_of(|name| std::env::var(name).ok());
    let spares = match options.spares.map_or_else(own_spares, Ok) {
        Ok(spares) => spares,
        Err(why) => return Ok(launch::refuse(why, &Streams::own()?)),
    };
    let plan = Plan {
        hosts: options.hosts.hosts()?,
        rank_order: options.map_by,
        agent: options.hosts.agent()?,
        workers: options.n.get(),
        spares,
        program: options.program,
        preload: preload.into(),
        mpi: options.mpi,
        ckptd: own_program,
        environment: Environment::default(),
    };
    starter::run(&plan, Streams::own()?, |_| {})
}

fn manage(
    socket: i32,
    directory: &Path,
    has_duty: bool,
    keeper: Option<i32>,
) -> Result<i32, launch::Error> {
    env_logger::Builder::from_env(env_logger::Env::new().filter_or("UNDERSTUDY_LOG", "warn"))
        .init();
    let (listener, keeper) = (launch::inherited(socket), keeper.map(launch::inherited));
    manager::manage(listener.into(), directory, has_duty, keeper)
}

fn write_manual(dir: &Path) -> ExitCode {
    match manual::write(Arguments::command(), dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!(
                "ckptd: no man pages can be written to {}: {error}. Choose another directory.",
                dir.display()
            );
            ExitCode::FAILURE
        }
    }
}

fn serve(options: Serve) -> ExitCode {
    let filter = env_logger::Env::new().filter_or("UNDERSTUDY_LOG", "info");
    env_logger::Builder::from_env(filter).init();
    let ports = match ports_of(|name| std::env::var(name).ok()) {
        Ok(ports) => ports,
        Err(why) => {
            eprintln!("ckptd: {why}");
            return ExitCode::FAILURE;
        }
    };
    let options = daemon::Options {
        socket: options.socket,
        listen: options.listen,
        ports,
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
/// another user is closed, and libpmix receives `EAGAIN` (no connection is waiting), after which
/// libpmix waits for the next connection; many other errors would end its listening. Rust's
/// standard library calls accept4(2) instead.
///
/// # Safety
/// `address` and `length` satisfy the requirements of accept(2).
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
unsafe extern "C" fn accept(
    socket: libc::c_int,
    address: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
) -> libc::c_int {
    // SAFETY: the caller guarantees arguments that are valid for accept(2), and accept4(2) has the
    // same requirements. A descriptor that accept4(2) has returned has no other owner. The address
    // of `errno` is valid in this thread.
    unsafe {
        let accepted = libc::accept4(socket, address, length, 0);
        if accepted >= 0 {
            let connection = OwnedFd::from_raw_fd(accepted);
            if is_other_user(&connection) {
                drop(connection);
                *libc::__errno_location() = libc::EAGAIN;
                return -1;
            }
            std::mem::forget(connection);
        }
        accepted
    }
}
