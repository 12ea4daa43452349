//! `ckptd serve` as a process: good, slow, half-open and hostile clients.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use understudy_formats::events::{ProcessNumber, Worker};
use understudy_formats::host::host_name;
use understudy_formats::private_directories;
use understudy_wire::client::{Client, ClientError, DaemonAddress};
use understudy_wire::spares::{ProcessLocation, Refusal, Spare, SpareLimits, SpareNeed};
use understudy_wire::{Answer, JobStatus, Request, encode};

/// Longest time for which a test waits.
const LIMIT: Duration = Duration::from_secs(60);
const TOKENS: [&str; 2] = ["a token of one job, 0123", "a token of another, 456"];

struct Daemon {
    child: Child,
    directory: TempDir,
    tcp: Option<SocketAddr>,
    metrics: Option<SocketAddr>,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn private_directory() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o700))
        .expect("set");
    directory
}

fn command(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ckptd"));
    command
        .arg("serve")
        .arg("--socket")
        .arg(directory.join("socket"));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

impl Daemon {
    fn start() -> Self {
        Self::start_in(private_directory(), |_| {})
    }

    fn start_in(directory: TempDir, prepare: impl Fn(&mut Command)) -> Self {
        let tokens = directory.path().join("tokens");
        std::fs::write(&tokens, TOKENS.join("\n")).expect("written");
        std::fs::set_permissions(&tokens, std::fs::Permissions::from_mode(0o600)).expect("set");
        let mut command = command(directory.path());
        command.args([
            "--listen",
            "127.0.0.1:0",
            "--metrics",
            "127.0.0.1:0",
            "--token-file",
        ]);
        command.arg(&tokens);
        prepare(&mut command);
        let mut child = command.spawn().expect("started");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let (mut tcp, mut metrics) = (None, None);
        for line in lines.take(3) {
            let line = line.expect("read");
            match line.split_once(' ').expect("two words") {
                ("tcp", address) => tcp = Some(address.parse().expect("an address")),
                ("metrics", address) => metrics = Some(address.parse().expect("an address")),
                _ => {}
            }
        }
        Daemon {
            child,
            directory,
            tcp,
            metrics,
        }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn client(&self) -> Client {
        Client::connect(&DaemonAddress::Local(self.socket()), None, LIMIT, 0).expect("connected")
    }

    fn remote(&self, token: &str) -> Result<Client, ClientError> {
        Client::connect(
            &DaemonAddress::Remote(self.tcp.expect("listens")),
            Some(token.as_bytes()),
            LIMIT,
            0,
        )
    }

    fn terminate(&mut self) -> std::process::ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("sent");
        self.child.wait().expect("waited for")
    }
}

fn register(client: &mut Client, job: &str, rank: u32, domain: &str) -> Answer {
    let spare = Spare {
        rank: ProcessNumber(rank),
        pid: 1,
        launcher: std::process::id(),
        host: format!("host of {domain}"),
        domain: domain.into(),
        workers: 2,
    };
    let (job, limits) = (
        job.to_owned(),
        SpareLimits {
            minimum: 0,
            maximum: 8,
        },
    );
    client
        .request(&Request::Register { job, spare, limits }, LIMIT)
        .expect("answered")
}

fn lease(client: &mut Client, job: &str, round: u64, worker: u32) -> Answer {
    let place = |domain: &str| ProcessLocation {
        host: format!("host of {domain}"),
        domain: domain.into(),
    };
    let need = SpareNeed {
        worker: Worker(worker),
        failed: place("a"),
        copies: vec![place("b")],
    };
    let request = Request::Lease {
        job: job.into(),
        round,
        needs: vec![need],
    };
    client.request(&request, LIMIT).expect("answered")
}

fn leased(answer: Answer) -> Vec<u32> {
    match answer {
        Answer::Leased(leases) => leases.iter().map(|lease| lease.rank.0).collect(),
        other => panic!("{other:?}"),
    }
}

fn status(client: &mut Client) -> Vec<JobStatus> {
    match client.request(&Request::Status, LIMIT).expect("answered") {
        Answer::Status(status) => status,
        other => panic!("{other:?}"),
    }
}

/// Polls the last events of a job until they meet the condition, and returns them.
fn events_when(
    client: &mut Client,
    job: &str,
    condition: impl Fn(&[String]) -> bool,
) -> Vec<String> {
    loop {
        let status = status(client);
        let job = status
            .iter()
            .find(|status| status.job == job)
            .expect("known");
        let events: Vec<String> = job.events.iter().map(|event| event.what.clone()).collect();
        if condition(&events) {
            return events;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn spares_are_registered_leased_used_and_removed() {
    let mut daemon = Daemon::start();
    let (mut one, mut two, mut other, mut asker) = (
        daemon.client(),
        daemon.client(),
        daemon.client(),
        daemon.client(),
    );
    assert_eq!(register(&mut one, "job", 4, "a"), Answer::Welcome);
    assert_eq!(register(&mut two, "job", 5, "b"), Answer::Welcome);
    assert_eq!(register(&mut other, "another job", 4, "b"), Answer::Welcome);
    assert_eq!(leased(lease(&mut asker, "job", 1, 0)), [5]);
    assert_eq!(leased(lease(&mut asker, "job", 1, 0)), [5]);
    two.notify(&Request::Replaced { worker: Worker(0) })
        .expect("sent");
    drop(two);
    drop(one);
    let events = events_when(&mut asker, "job", |events| events.len() >= 5);
    assert!(
        events.contains(&"rank 5 is worker 0 now".into()),
        "{events:?}"
    );
    assert!(
        events.contains(&"spare rank 4 has failed: its connection has broken".into()),
        "{events:?}"
    );
    assert_eq!(
        lease(&mut asker, "job", 0, 0),
        Answer::Refused(Refusal::LateRound)
    );
    assert_eq!(
        lease(&mut asker, "no job", 1, 0),
        Answer::Refused(Refusal::NoJob)
    );
    assert_eq!(leased(lease(&mut asker, "another job", 1, 3)), [4]);
    assert!(daemon.terminate().success());
    assert!(!daemon.socket().exists());
}

#[test]
fn one_daemon_for_a_socket_and_the_next_one_takes_over_when_it_is_killed() {
    let mut daemon = Daemon::start();
    let second = command(daemon.directory.path()).output().expect("run");
    assert_eq!(second.status.code(), Some(3));
    assert_eq!(
        register(&mut daemon.client(), "job", 4, "a"),
        Answer::Welcome
    );
    daemon.child.kill().expect("killed");
    daemon.child.wait().expect("waited for");
    assert!(daemon.socket().exists(), "left behind");
    let directory = std::mem::replace(&mut daemon.directory, private_directory());
    let next = Daemon::start_in(directory, |_| {});
    assert_eq!(status(&mut next.client()), []);
}

/// A killed `understudy run` cannot remove the directory that it has made for the socket.
#[test]
fn the_daemon_of_one_job_leaves_no_directory_behind() {
    let top = private_directory();
    let made = top.path().join("made");
    let daemon = command(&made).arg("--until-stdin-ends").output();
    assert!(daemon.expect("run").status.success());
    assert!(!made.exists());
}

#[test]
fn hostile_and_slow_clients_block_no_other_client() {
    let daemon = Daemon::start();
    let socket = daemon.socket();
    let connect = || UnixStream::connect(&socket).expect("connected");
    let mut kept = Vec::new();
    // Half-open connections, some with half a message.
    for length in 0..200 {
        let mut stream = connect();
        let frame = encode(&Request::Status).expect("short");
        stream
            .write_all(&frame[..length % frame.len()])
            .expect("sent");
        kept.push(stream);
    }
    // A client that sends requests and never reads.
    let mut greedy = connect();
    greedy.set_nonblocking(true).expect("set");
    let many: Vec<u8> = encode(&Request::Status).expect("short").repeat(4096);
    let _ = greedy.write(&many);
    // A client that sends garbage, and one that sends garbage until the buffers are full and never
    // reads.
    let mut garbage = connect();
    garbage.write_all(&[0xa5; 64]).expect("sent");
    let mut answer = Vec::new();
    garbage
        .read_to_end(&mut answer)
        .expect("closed by the daemon");
    let mut deaf = connect();
    deaf.set_nonblocking(true).expect("set");
    while deaf.write(&[b'U'; 4096]).is_ok() {}
    // Clients over TCP without a token, more than the daemon has room for.
    let tcp = daemon.tcp.expect("listens");
    let strangers: Vec<TcpStream> = (0..150)
        .map(|_| TcpStream::connect(tcp).expect("connected"))
        .collect();
    let mut good = daemon.client();
    assert_eq!(register(&mut good, "job", 4, "a"), Answer::Welcome);
    let mut remote = daemon
        .remote(TOKENS[0])
        .expect("there is room for clients that prove a token");
    assert_eq!(register(&mut remote, "job", 4, "a"), Answer::Welcome);
    assert_eq!(leased(lease(&mut good, "job", 1, 0)), [4]);
    drop((kept, greedy, deaf, strangers));
    assert_eq!(leased(lease(&mut good, "job", 2, 0)), [4]);
}

#[test]
fn over_tcp_a_token_is_wanted_and_jobs_of_others_are_not_seen() {
    let daemon = Daemon::start();
    let mut first = daemon.remote(TOKENS[0]).expect("knows a token");
    assert_eq!(register(&mut first, "job", 4, "b"), Answer::Welcome);
    assert!(
        matches!(daemon.remote("not a token of this daemon"), Err(ClientError::Closed(why)) if why == "wrong \
            token")
    );
    let mut second = daemon.remote(TOKENS[1]).expect("knows another token");
    assert_eq!(status(&mut second), []);
    assert_eq!(
        lease(&mut second, "job", 1, 0),
        Answer::Refused(Refusal::NoJob)
    );
    assert_eq!(
        lease(&mut daemon.client(), "job", 1, 0),
        Answer::Refused(Refusal::NoJob)
    );
    let mut third = daemon.remote(TOKENS[0]).expect("knows the token");
    assert_eq!(leased(lease(&mut third, "job", 1, 0)), [4]);
    // Clients that have not proved a token get no answer.
    let mut stranger = TcpStream::connect(daemon.tcp.expect("listens")).expect("connected");
    stranger
        .write_all(&encode(&Request::Status).expect("short"))
        .expect("sent");
    let mut got = Vec::new();
    let _ = stranger.read_to_end(&mut got);
    assert!(!got.windows(3).any(|window| window == b"job"));
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connected");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: here\r\n\r\n").expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("text");
    text
}

#[test]
fn figures_for_prometheus() {
    let daemon = Daemon::start();
    let mut spare = daemon.client();
    register(&mut spare, "a \"job\"", 4, "b");
    leased(lease(&mut spare, "a \"job\"", 1, 0));
    let text = get(daemon.metrics.expect("there"), "/metrics");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    for line in [
        "understudy_jobs 1",
        "understudy_spares{job=\"a \\\"job\\\"\",state=\"leased\"} 1",
        "understudy_leases_total 1",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line} is not in {text}"
        );
    }
    assert!(get(daemon.metrics.expect("there"), "/etc/passwd").starts_with("HTTP/1.1 404"));
    let elsewhere = command(daemon.directory.path())
        .args(["--metrics", "0.0.0.0:0"])
        .output()
        .expect("run");
    assert_eq!(elsewhere.status.code(), Some(1));
}

/// A client of another user gets no answer.
///
/// Root can enter every directory, so the daemon itself must check the peer's user.
#[test]
fn another_user_is_turned_away() {
    const UNPRIVILEGED_USER: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can start a process of another user");
        return;
    }
    let directory = private_directory();
    chown(directory.path(), Some(UNPRIVILEGED_USER), None).expect("given away");
    let program = directory.path().join("ckptd");
    // Another process copies the file: if this process wrote the copy, a child forked meanwhile
    // could keep the copy open for writing, and executing it would fail (ETXTBSY).
    let copied = Command::new("cp")
        .arg(env!("CARGO_BIN_EXE_ckptd"))
        .arg(&program)
        .status();
    assert!(copied.expect("cp runs").success());
    let mut child = Command::new(&program)
        .arg("serve")
        .arg("--socket")
        .arg(directory.path().join("socket"))
        .uid(UNPRIVILEGED_USER)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped"))
        .read_line(&mut line)
        .expect("read");
    let mut stream = UnixStream::connect(directory.path().join("socket")).expect("connected");
    let _ = stream.write_all(&encode(&Request::Status).expect("short"));
    let mut got = Vec::new();
    let _ = stream.read_to_end(&mut got);
    child.kill().expect("killed");
    child.wait().expect("waited for");
    assert_eq!(got, b"");
}

#[test]
fn what_a_killed_job_has_left_is_removed_and_nothing_else() {
    // The launcher whose PID is in the job's name has exited.
    let mut gone = Command::new("true").spawn().expect("started");
    gone.wait().expect("waited for");
    let host = host_name();
    let memory = private_directories::make_in_memory()
        .expect("there is a /dev/shm")
        .path()
        .to_owned();
    let name =
        |pid: u32, rest: &str| memory.join(format!("understudy-prterun-{host}-{pid}@1-{rest}"));
    let left = [name(gone.id(), "0.undo"), name(gone.id(), "1.undo")];
    let others = [
        // A launcher elsewhere, which may have started a job just now.
        memory.join(format!(
            "understudy-prterun-elsewhere-{}@1-0.undo",
            gone.id()
        )),
        memory.join(format!(
            "understudy-0000000000000007-{:016x}-0.undo",
            gone.id()
        )),
        memory.join(format!("not-understudy-{}@1-0", gone.id())),
    ];
    for path in left.iter().chain(&others) {
        std::fs::write(path, "something").expect("written");
    }
    let daemon = Daemon::start();
    while left.iter().any(|path| path.exists()) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let text = get(daemon.metrics.expect("there"), "/metrics");
    let kept = others.iter().all(|path| path.exists());
    others
        .iter()
        .for_each(|path| drop(std::fs::remove_file(path)));
    assert!(kept, "files that are not of a killed job are gone");
    assert!(
        text.contains("understudy_leftovers_removed_total "),
        "{text}"
    );
}
