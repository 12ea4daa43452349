//! The relay with real processes: kills, takeovers, rollbacks.

mod support;

use std::fs::{File, create_dir, read, remove_dir, write};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};
use support::{
    Random, TIMEOUT, WriterPlan, assert_stream, collect, pipe, place, relay, stream, writer,
};
use understudy_relay::{LedgerError, LedgerObserver, LedgerView, Position, Stream};

/// Body of the writer's process (see `support`), not a test.
#[test]
fn writer_process() {
    support::writer_main();
}

fn cut_file(dir: &Path) -> std::path::PathBuf {
    let path = dir.join("cut");
    write(&path, 0u64.to_le_bytes()).unwrap();
    path
}

fn last_cut(path: &Path) -> u64 {
    u64::from_le_bytes(read(path).unwrap().try_into().unwrap())
}

/// Runs a job whose writer is killed `kills` times at random moments.
///
/// Returns the number of kills that found the writer alive.
fn job_with_kills(random: &mut Random, length: u64, kills: u64, rollbacks: u64) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let cuts = cut_file(dir.path());
    let (real_read, real) = pipe();
    let shown = collect(real_read);
    let (mut high_water, mut from, mut killed) = (Position::START, 0, 0);
    for round in 0..=kills {
        let relay = relay(
            &dir.path().join(format!("ledger-{round}")),
            real.try_clone().unwrap(),
            None,
        );
        let seed = random.next();
        let takeover = (round > 0).then_some(high_water);
        let plan = WriterPlan {
            relay: &relay,
            cut_file: &cuts,
            seed,
            from,
            high_water: takeover,
            to: length,
            rollbacks,
        };
        let mut child = writer(&plan);
        if round < kills {
            std::thread::sleep(Duration::from_micros(2000 + random.below(30_000)));
            child.kill().unwrap();
        }
        let status = child.wait().unwrap();
        assert!(
            status.success() || round < kills,
            "the last writer failed: {status}"
        );
        relay.view();
        let observer = LedgerObserver::open(&relay.ledger).unwrap();
        let ledger = relay.ledger.clone();
        assert!(relay.release().success());
        high_water = high_water.max(observer.final_high_water(Stream::Out, TIMEOUT).unwrap());
        assert!(observer.is_closed() && !observer.is_relay_alive());
        assert!(
            !status.success() || !ledger.exists(),
            "an orderly end removes the ledger"
        );
        // A writer that has written everything may have been killed while it exited.
        let may_have_requested_removal = status.success() || high_water == place(length);
        assert!(
            ledger.exists() || may_have_requested_removal,
            "a kill does not remove the ledger"
        );
        from = last_cut(&cuts);
        assert!(
            high_water >= place(from),
            "what was written before a cut was forwarded"
        );
        if status.success() {
            break;
        }
        killed += 1;
    }
    drop(real);
    assert_eq!(high_water, place(length));
    assert_stream(&shown.join().unwrap(), length);
    killed
}

#[test]
fn survivors_rebase() {
    let mut random = Random::announced("survivors_rebase");
    for _ in 0..4 {
        job_with_kills(&mut random, 8_000_000, 0, 400);
    }
}

#[test]
fn killed_writers_are_taken_over() {
    let mut random = Random::announced("killed_writers_are_taken_over");
    let mut killed = 0;
    for _ in 0..6 {
        let length = 1_000_000 + random.below(8_000_000);
        killed += job_with_kills(&mut random, length, 6, 40);
    }
    println!("{killed} writers were killed");
    assert!(killed > 0);
}

#[test]
fn killed_between_takeover_and_first_byte() {
    let dir = tempfile::tempdir().unwrap();
    let (_real_read, real) = pipe();
    let relay = relay(&dir.path().join("ledger"), real, None);
    let view = relay.view();
    let at = |line, column| Position { line, column };
    view.rebase(Stream::Out, at(0, 7)).unwrap();
    view.takeover(Stream::Out, at(1, 40), at(3, 10)).unwrap();
    view.rebase(Stream::Out, at(1, 30)).unwrap();
    assert_eq!(view.position(Stream::Out).unwrap(), at(1, 30));
    let observer = LedgerObserver::open(&relay.ledger).unwrap();
    assert!(matches!(
        observer.final_high_water(Stream::Out, Duration::ZERO),
        Err(LedgerError::Timeout(_))
    ));
    relay.release();
    assert_eq!(
        observer.final_high_water(Stream::Out, TIMEOUT).unwrap(),
        at(3, 10)
    );
    observer.remove().unwrap();
}

/// Lines with times have another length after a rollback: each line is shown once.
#[test]
fn lines_of_another_length() {
    let dir = tempfile::tempdir().unwrap();
    let (real_read, real) = pipe();
    let shown = collect(real_read);
    let relay = relay(&dir.path().join("ledger"), real, None);
    let (view, mut to) = (relay.view(), File::from(relay.out.try_clone().unwrap()));
    to.write_all(b"begin\n").unwrap();
    let cut = view.position(Stream::Out).unwrap();
    to.write_all(b"1000 steps in 12.75 s\nall 1000 done\nCPU 99.7")
        .unwrap();
    view.rebase(Stream::Out, cut).unwrap();
    to.write_all(b"1000 steps in 9 s\nall 1000 done\nCPU 100.1 %\nend\n")
        .unwrap();
    view.rebase(Stream::Out, cut).unwrap();
    to.write_all(b"1000 steps in 10.00001 s\nall 1000 done\nCPU 7 %\nend\nlast\n")
        .unwrap();
    drop(to);
    assert!(relay.release().success());
    let text = "begin\n1000 steps in 12.75 s\nall 1000 done\nCPU 99.71 %\nend\nlast\n";
    assert_eq!(String::from_utf8(shown.join().unwrap()).unwrap(), text);
}

#[test]
fn slow_reader_and_nonblocking_stdout() {
    let mut random = Random::announced("slow_reader_and_nonblocking_stdout");
    let dir = tempfile::tempdir().unwrap();
    let cuts = cut_file(dir.path());
    let (real_read, real) = pipe();
    set_nonblocking(&real);
    let relay = relay(&dir.path().join("ledger"), real, None);
    let to = 3_000_000;
    let plan = WriterPlan {
        relay: &relay,
        cut_file: &cuts,
        seed: random.next(),
        from: 0,
        high_water: None,
        to,
        rollbacks: 40,
    };
    let mut child = writer(&plan);
    let reader = std::thread::spawn(move || {
        let (mut file, mut all, mut piece) = (File::from(real_read), Vec::new(), vec![0; 30_000]);
        loop {
            std::thread::sleep(Duration::from_micros(random.below(3000)));
            let limit = 1 + random.below(30_000) as usize;
            match file.read(&mut piece[..limit]).unwrap() {
                0 => return all,
                n => all.extend_from_slice(&piece[..n]),
            }
        }
    });
    assert!(child.wait().unwrap().success());
    assert!(relay.release().success());
    assert_stream(&reader.join().unwrap(), to);
}

#[test]
fn closed_and_full_stdout_do_not_block_the_rank() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let (reader, closed) = pipe();
    drop(reader);
    for (real, errno) in [(closed, libc::EPIPE), (OwnedFd::from(full), libc::ENOSPC)] {
        let dir = tempfile::tempdir().unwrap();
        let relay = relay(&dir.path().join("ledger"), real, None);
        let view = relay.view();
        assert_eq!(view.write_error(Stream::Out), None);
        File::from(relay.out.try_clone().unwrap())
            .write_all(&stream(0, 1_000_000))
            .unwrap();
        view.flush(Stream::Out, TIMEOUT).unwrap();
        assert_eq!(view.write_error(Stream::Out), Some(errno));
        let observer = LedgerObserver::open(&relay.ledger).unwrap();
        assert!(relay.release().success());
        assert_eq!(
            observer.final_high_water(Stream::Out, TIMEOUT).unwrap(),
            place(1_000_000)
        );
        assert_eq!(observer.write_error(Stream::Out), Some(errno));
    }
}

#[test]
fn streams_are_independent_and_prompt() {
    let dir = tempfile::tempdir().unwrap();
    let ((_stalled, real_out), (real_err_read, real_err)) = (pipe(), pipe());
    let relay = relay(&dir.path().join("ledger"), real_out, Some(real_err));
    let view = relay.view();
    // Standard output is not read: both its pipes are full except for the last bytes.
    File::from(relay.out.try_clone().unwrap())
        .write_all(&stream(0, 120_000))
        .unwrap();
    let (mut to, mut from) = (
        File::from(relay.err.try_clone().unwrap()),
        File::from(real_err_read),
    );
    let begin = Instant::now();
    for round in 0..100u8 {
        to.write_all(&[round]).unwrap();
        let mut got = [0];
        from.read_exact(&mut got).unwrap();
        assert_eq!(got, [round]);
    }
    println!("{:?} per round", begin.elapsed() / 100);
    assert!(begin.elapsed() < Duration::from_secs(10));
    assert_eq!(
        view.position(Stream::Err).unwrap(),
        Position::START.after(&(0..100).collect::<Vec<u8>>())
    );
    assert!(matches!(
        view.flush(Stream::Out, Duration::from_millis(20)),
        Err(LedgerError::Timeout(_))
    ));
}

#[test]
fn signals_do_not_end_the_relay_but_a_kill_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let (real_read, real) = pipe();
    let mut relay = relay(&dir.path().join("ledger"), real, None);
    let view = relay.view();
    let shown = collect(real_read);
    for signal in [
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGPIPE,
        libc::SIGQUIT,
    ] {
        kill(relay.child.id(), signal);
    }
    File::from(relay.out.try_clone().unwrap())
        .write_all(b"still here")
        .unwrap();
    view.flush(Stream::Out, TIMEOUT).unwrap();
    let observer = LedgerObserver::open(&relay.ledger).unwrap();
    assert!(observer.is_relay_alive());
    relay.child.kill().unwrap();
    relay.child.wait().unwrap();
    let pipes = [Some(relay.out.as_raw_fd()), None];
    let attached = LedgerView::attach(Path::new("/nonexistent/ledger"), pipes, TIMEOUT).map(|_| ());
    assert!(
        matches!(attached, Err(LedgerError::RelayDied)),
        "{attached:?}"
    );
    assert_eq!(shown.join().unwrap(), b"still here");
    assert!(matches!(
        observer.final_high_water(Stream::Out, TIMEOUT),
        Err(LedgerError::RelayDied)
    ));
    view.rebase(Stream::Out, place(1)).unwrap();
    assert!(matches!(view.flush(Stream::Out, TIMEOUT), Ok(())));
}

#[test]
fn without_a_ledger_output_continues() {
    let (real_read, real) = pipe();
    let ((err_read, err), shown) = (pipe(), collect(real_read));
    let relay = relay(Path::new("/nonexistent/ledger"), real, Some(err));
    let pipes = [Some(relay.out.as_raw_fd()), None];
    let attached = LedgerView::attach(&relay.ledger, pipes, TIMEOUT).map(|_| ());
    assert!(
        matches!(attached, Err(LedgerError::Impossible)),
        "{attached:?}"
    );
    File::from(relay.out.try_clone().unwrap())
        .write_all(&stream(0, 300_000))
        .unwrap();
    assert!(relay.release().success());
    assert_stream(&shown.join().unwrap(), 300_000);
    let message = String::from_utf8(collect(err_read).join().unwrap()).unwrap();
    assert!(
        message.contains("/nonexistent/ledger") && message.lines().count() == 1,
        "{message}"
    );
}

/// A relay whose job has ended removes its ledger; otherwise the ledger stays.
///
/// No other process removes the ledger if the rank and the manager of the job are killed while the
/// relay starts.
#[test]
fn a_relay_removes_the_ledger_if_its_job_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let job = dir.path().join("understudy-ckptd-node-7@1-launch");
    for job_lasts in [true, false] {
        match job_lasts {
            true => create_dir(&job).unwrap(),
            false => remove_dir(&job).unwrap(),
        }
        let relay = relay(
            &dir.path().join("understudy-ckptd-node-7@1-3"),
            pipe().1,
            None,
        );
        relay.view();
        let ledger = relay.ledger.clone();
        assert!(relay.release().success());
        assert_eq!(ledger.exists(), job_lasts);
    }
}

#[test]
fn attaching_reports_errors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger");
    let attach = |fd| LedgerView::attach(&path, [fd, None], Duration::from_millis(5)).map(|_| ());
    assert!(matches!(attach(None), Err(LedgerError::NotReady(_))));
    write(&path, [1; 4096]).unwrap();
    assert!(matches!(attach(None), Err(LedgerError::NotALedger)));
    let mut foreign = [0; 4096];
    foreign[..8].copy_from_slice(b"USTDYLGR");
    foreign[8] = 99;
    write(&path, foreign).unwrap();
    assert!(matches!(
        attach(None),
        Err(LedgerError::ForeignVersion { found: 99 })
    ));
    let relay = relay(&dir.path().join("good"), pipe().1, None);
    let null = File::open("/dev/null").unwrap();
    let view =
        LedgerView::attach(&relay.ledger, [Some(null.as_raw_fd()), None], TIMEOUT).map(|_| ());
    assert!(matches!(view, Err(LedgerError::NotAPipe(Stream::Out))));
}

#[allow(unsafe_code)]
fn kill(pid: u32, signal: i32) {
    // SAFETY: the signal is sent to a child of this test that has not been waited for.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0);
}

#[allow(unsafe_code)]
fn set_nonblocking(fd: &OwnedFd) {
    // SAFETY: fcntl(2) with an open descriptor and a flag accesses no memory.
    let result = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    assert_eq!(result, 0);
}
