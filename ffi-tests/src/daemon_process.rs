//! `ckptd serve` beside a job, and imitations of the daemon.

use crate::paths;
use crossbeam_channel::{Sender, bounded, select, tick};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use understudy_formats::events::{EventReader, Kind, ProcessNumber, SpareChoice};
use understudy_wire::client::{Client, DaemonAddress};
use understudy_wire::spares::{Spare, SpareLimits};
use understudy_wire::{Answer, JobStatus, Request};

/// Longest time for which the tests wait for an answer of the daemon.
const LIMIT: Duration = Duration::from_secs(20);

/// Interval of heartbeats; a spare counts as dead after 10 s without a heartbeat.
const BEAT: Duration = Duration::from_secs(1);

/// Makes a directory that only this user can enter.
pub fn private_directory() -> TempDir {
    let directory = tempfile::tempdir().expect("there is room for temporary files");
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o700))
        .expect("the directory belongs to this user");
    directory
}

/// A daemon with its own socket.
pub struct Daemon {
    child: Child,
    directory: TempDir,
    options: &'static [&'static str],
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts a daemon's process and waits until the daemon is ready.
fn start(socket: &Path, options: &[&str]) -> Child {
    let mut child = Command::new(paths::product("ckptd"))
        .args(["serve", "--socket"])
        .arg(socket)
        .args(options)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("ckptd can be started");
    let stdout = child.stdout.take().expect("standard output is a pipe");
    let mut line = String::new();
    BufReader::new(stdout)
        .read_line(&mut line)
        .expect("the daemon reports when it is ready");
    assert!(line.starts_with("socket "), "{line}");
    child
}

impl Daemon {
    /// Starts a daemon.
    ///
    /// # Panics
    /// Panics if the daemon cannot be started.
    pub fn start() -> Daemon {
        Self::start_with(&[])
    }

    /// Starts a daemon with these options.
    ///
    /// # Panics
    /// Panics if the daemon cannot be started.
    pub fn start_with(options: &'static [&'static str]) -> Daemon {
        let directory = private_directory();
        let child = start(&directory.path().join("socket"), options);
        Daemon {
            child,
            directory,
            options,
        }
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// Kills the daemon by SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Kills the daemon and starts another one on its socket.
    pub fn restart(&mut self) {
        self.kill();
        self.child = start(&self.socket(), self.options);
    }

    /// Connects a client.
    ///
    /// # Panics
    /// Panics if the daemon does not accept the client.
    pub fn client(&self) -> Client {
        Client::connect(&DaemonAddress::Local(self.socket()), None, LIMIT, 0)
            .expect("there is a daemon")
    }

    /// Returns the daemon's status of all jobs.
    ///
    /// # Panics
    /// Panics if the daemon does not answer.
    pub fn status(&self) -> Vec<JobStatus> {
        match self.client().request(&Request::Status, LIMIT) {
            Ok(Answer::Status(status)) => status,
            other => panic!("the daemon does not answer with its status: {other:?}"),
        }
    }

    /// Ranks of the spares of all jobs.
    pub fn spares(&self) -> Vec<u32> {
        let status = self.status();
        let spares = status.iter().flat_map(|job| &job.spares);
        spares.map(|spare| spare.spare.rank.0).collect()
    }

    /// Registers a spare under the name of a job that does not exist.
    ///
    /// The registration ends when the returned value is dropped.
    ///
    /// # Panics
    /// Panics if the daemon refuses the spare.
    pub fn unrelated_spare(&self, job: &str, rank: u32) -> UnrelatedSpare {
        let spare = Spare {
            rank: ProcessNumber(rank),
            pid: std::process::id(),
            launcher: std::process::id(),
            host: "here".into(),
            domain: "here".into(),
            workers: 1,
        };
        let (job, limits) = (
            job.to_owned(),
            SpareLimits {
                minimum: 0,
                maximum: 4,
            },
        );
        let mut client = self.client();
        let answer = client.request(&Request::Register { job, spare, limits }, LIMIT);
        assert!(matches!(answer, Ok(Answer::Welcome)), "{answer:?}");
        UnrelatedSpare::beating(client)
    }
}

/// A registered spare whose job does not exist.
///
/// A thread sends the heartbeats of the spare until this value is dropped, so the spare stays
/// registered however long a test waits for its turn.
pub struct UnrelatedSpare {
    _end: Sender<()>,
}

impl UnrelatedSpare {
    fn beating(mut client: Client) -> UnrelatedSpare {
        let (end, ended) = bounded(0);
        std::thread::spawn(move || {
            let beats = tick(BEAT);
            loop {
                select! {
                    recv(ended) -> _ => return,
                    // The daemon may have been killed.
                    recv(beats) -> _ => drop(client.notify(&Request::Beat)),
                }
            }
        });
        UnrelatedSpare { _end: end }
    }
}

/// Reads from the event files in a directory which spares were chosen as replacements.
///
/// # Panics
/// Panics if the directory does not exist.
pub fn spares_chosen(events: &Path) -> Vec<SpareChoice> {
    let files = std::fs::read_dir(events)
        .expect("there are event files")
        .flatten();
    let records = files
        .filter_map(|file| EventReader::open(&file.path()).ok())
        .flat_map(|reader| reader.flatten());
    let choices = records.filter_map(|record| match record.kind {
        Kind::SparesChosen { choices, .. } => Some(choices),
        _ => None,
    });
    choices.flatten().collect()
}

/// Accepts every client on a socket and sends `answer` whenever a client has sent data.
///
/// The thread that accepts clients runs until the test process exits.
pub fn imitate_daemon(socket: &Path, answer: Vec<u8>) {
    let listener = UnixListener::bind(socket).expect("the directory is ours");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while stream.read(&mut buffer).is_ok_and(|got| got > 0) {
                    let _ = stream.write_all(&answer);
                }
            });
        }
    });
}
