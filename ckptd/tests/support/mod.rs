//! A relay and its writers as real processes.
//!
//! The writer is this test binary, started with the name of the helper test. It writes to
//! descriptor [`WRITER_FD`], so that the output of the test harness is separate.
#![allow(unsafe_code, dead_code)]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use understudy_relay::{IN_ERR_FD, IN_OUT_FD, LedgerView, Position, Stream};

pub const WRITER_FD: RawFd = 10;
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Generator of random numbers: SplitMix64 (Steele, Lea, Flood 2014).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Takes the seed from `UNDERSTUDY_TEST_SEED` or the clock, and prints it.
    ///
    /// A failed test can be repeated with the printed seed.
    pub fn announced(test: &str) -> Self {
        let clock = || std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
        let seed = std::env::var("UNDERSTUDY_TEST_SEED")
            .ok()
            .and_then(|s| s.parse().ok())
            .unwrap_or_else(clock);
        println!("{test}: UNDERSTUDY_TEST_SEED={seed}");
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns a length that is mostly small, and sometimes larger than a pipe.
    pub fn size(&mut self) -> u64 {
        let limit = [1, 80, 80, 700, 4096, 4097, 70_000, 200_000][self.below(8) as usize];
        1 + self.below(limit)
    }
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Returns the bytes `from..to` of the undisturbed stream.
pub fn stream(from: u64, to: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity((to - from) as usize + 16);
    for word in from / 8..to.div_ceil(8) {
        bytes.extend_from_slice(&mix(word).to_le_bytes());
    }
    bytes.drain(..(from % 8) as usize);
    bytes.truncate((to - from) as usize);
    bytes
}

/// Returns the position of byte `at` of the undisturbed stream.
pub fn place(at: u64) -> Position {
    Position::START.after(&stream(0, at))
}

/// Asserts equality without printing megabytes.
pub fn assert_stream(got: &[u8], length: u64) {
    let want = stream(0, length);
    let same = || got.iter().zip(&want).take_while(|(a, b)| a == b).count();
    assert!(
        got == want,
        "{} bytes instead of {}, the first {} right",
        got.len(),
        want.len(),
        same()
    );
}

pub fn pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = std::io::pipe().unwrap();
    (high(reader.as_raw_fd()), high(writer.as_raw_fd()))
}

/// Returns a duplicate above the small numbers, which children rearrange.
pub fn high(fd: RawFd) -> OwnedFd {
    // SAFETY: F_DUPFD_CLOEXEC makes a new descriptor that has no other owner.
    unsafe {
        let new = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 100);
        assert!(new >= 0);
        OwnedFd::from_raw_fd(new)
    }
}

/// Makes `fd` the descriptor `number` of the child; `None` closes that number.
fn give(command: &mut Command, number: RawFd, fd: Option<&OwnedFd>) {
    let fd = fd.map(AsRawFd::as_raw_fd);
    // SAFETY: dup2 and close are async-signal-safe, and the parent keeps `fd` open over the spawn.
    unsafe {
        command.pre_exec(move || {
            let result = match fd {
                Some(fd) => libc::dup2(fd, number),
                None => libc::close(number).min(0),
            };
            if result < 0 && fd.is_some() {
                Err(std::io::Error::last_os_error())
            } else {
                Ok(())
            }
        })
    };
}

pub struct Relay {
    pub child: Child,
    pub ledger: PathBuf,
    pub out: OwnedFd,
    pub err: OwnedFd,
}

/// Starts a relay; the write ends of both its pipes stay in this process.
pub fn relay(ledger: &Path, real_out: OwnedFd, real_err: Option<OwnedFd>) -> Relay {
    let ((out_read, out), (err_read, err)) = (pipe(), pipe());
    let mut command = Command::new(env!("CARGO_BIN_EXE_ckptd"));
    command
        .arg("relay")
        .arg("--ledger")
        .arg(ledger)
        .stdin(Stdio::null())
        .stdout(real_out);
    command.stderr(real_err.map_or(Stdio::inherit(), Stdio::from));
    give(&mut command, IN_OUT_FD, Some(&out_read));
    give(&mut command, IN_ERR_FD, Some(&err_read));
    Relay {
        child: command.spawn().unwrap(),
        ledger: ledger.to_owned(),
        out,
        err,
    }
}

impl Relay {
    pub fn view(&self) -> LedgerView {
        LedgerView::attach(
            &self.ledger,
            [Some(self.out.as_raw_fd()), Some(self.err.as_raw_fd())],
            TIMEOUT,
        )
        .unwrap()
    }

    /// Closes this process's write ends, and waits until the relay exits.
    ///
    /// The relay exits when the writers have closed their ends, too.
    pub fn release(self) -> std::process::ExitStatus {
        let Self {
            mut child,
            out,
            err,
            ..
        } = self;
        drop((out, err));
        child.wait().unwrap()
    }
}

/// Parameters of a writer process.
#[derive(Clone)]
pub struct WriterPlan<'a> {
    pub relay: &'a Relay,
    /// File to which the writer writes its last cut, 8 bytes.
    pub cut_file: &'a Path,
    pub seed: u64,
    pub from: u64,
    /// High-water mark with which the writer takes over.
    pub high_water: Option<Position>,
    pub to: u64,
    pub rollbacks: u64,
}

/// Starts a writer; the caller's write end of the relay's pipe stays open.
pub fn writer(plan: &WriterPlan) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "writer_process", "--nocapture"])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
        .env("W_LEDGER", &plan.relay.ledger)
        .env("W_CUT", plan.cut_file);
    command.env(
        "W_HIGH",
        plan.high_water.map_or("none".into(), |mark| {
            format!("{} {}", mark.line, mark.column)
        }),
    );
    for (name, value) in [
        ("SEED", plan.seed),
        ("FROM", plan.from),
        ("TO", plan.to),
        ("ROLLBACKS", plan.rollbacks),
    ] {
        command.env(format!("W_{name}"), value.to_string());
    }
    give(&mut command, WRITER_FD, Some(&plan.relay.out));
    command.spawn().unwrap()
}

/// Body of the helper test; does nothing unless started by [`writer`].
pub fn writer_main() {
    let Ok(ledger) = std::env::var("W_LEDGER") else {
        return;
    };
    let text = |name: &str| std::env::var(format!("W_{name}")).unwrap();
    let number = |name: &str| text(name).parse::<u64>().unwrap();
    let view = LedgerView::attach(Path::new(&ledger), [Some(WRITER_FD), None], TIMEOUT).unwrap();
    let cuts = File::options().write(true).open(text("CUT")).unwrap();
    // SAFETY: the descriptor was given to this process for this purpose, and has no other owner.
    let pipe = unsafe { File::from_raw_fd(WRITER_FD) };
    if let Some((line, column)) = text("HIGH").split_once(' ') {
        let [line, column] = [line, column].map(|number| number.parse().unwrap());
        view.takeover(
            Stream::Out,
            place(number("FROM")),
            Position { line, column },
        )
        .unwrap();
    }
    play(
        &view,
        &cuts,
        &pipe,
        number("SEED"),
        number("FROM")..number("TO"),
        number("ROLLBACKS"),
    );
    view.remove_on_close();
}

/// Writes the stream with cuts and rollbacks at random places, and checks the positions.
fn play(
    view: &LedgerView,
    cuts: &File,
    mut pipe: &File,
    seed: u64,
    range: std::ops::Range<u64>,
    mut rollbacks: u64,
) {
    let mut random = Random::new(seed);
    let (mut at, mut raw) = (range.start, view.written(Stream::Out).unwrap().0);
    let mut now = place(at);
    let mut cut = (at, now);
    while at < range.end {
        assert_eq!(view.position(Stream::Out).unwrap(), now);
        assert_eq!(view.written(Stream::Out).unwrap().0, raw);
        match random.below(20) {
            0..4 => {
                cut = (at, now);
                cuts.write_all_at(&at.to_le_bytes(), 0).unwrap();
            }
            4..8 if rollbacks > 0 => {
                rollbacks -= 1;
                if random.below(4) == 0 {
                    let elsewhere = cut.1.after(&stream(cut.0, cut.0 + random.below(1000)));
                    view.rebase(Stream::Out, elsewhere).unwrap();
                }
                view.rebase(Stream::Out, cut.1).unwrap();
                (at, now) = cut;
            }
            8 => std::thread::sleep(Duration::from_micros(random.below(500))),
            _ => {
                let to = (at + random.size()).min(range.end);
                let bytes = stream(at, to);
                pipe.write_all(&bytes).unwrap();
                now = now.after(&bytes);
                raw += to - at;
                at = to;
            }
        }
    }
}

/// Reads until the end of the stream, in another thread.
pub fn collect(from: OwnedFd) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        File::from(from).read_to_end(&mut all).unwrap();
        all
    })
}
