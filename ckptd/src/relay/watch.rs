//! Ends a job in which a rank died before `MPI_Init` was through.
//!
//! Open MPI's other ranks wait for such a rank for ever, inside of `MPI_Init`, and its launcher does not mind under
//! `--with-ft`. The relay of a rank that waits there looks at the ledgers of the job's ranks on this node: one whose
//! process is gone, or that was never made although the launcher has no other child that could still make it, will not
//! come any more. The launcher is then told to end the job (`SIGTERM`). Ranks of other nodes are looked after there.

use super::job::{Rank, lives, ranks};
use super::launcher::{self, children};
use super::ledger::{Ledger, RankStage, StreamState};
use super::{Stream, sys};
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(250);
/// The same must be seen so often, one look after the other, before the job is ended: its own end may be under way.
const LOOKS: u32 = 8;
/// How long the launcher may take to end the job.
const PATIENCE: Duration = Duration::from_secs(5);

/// What stands in the way of `MPI_Init`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Fine,
    /// This rank is dead, and was not through.
    Dead(u32),
    /// So many ranks died before they had a relay.
    NeverStarted(u32),
}

/// Looks at the ranks as long as the own rank waits in `MPI_Init`. Whoever ends the streams unparks this thread.
pub(super) fn watch(ledger: &Ledger, path: &Path) {
    let mut seen = (Verdict::Fine, 0);
    loop {
        std::thread::park_timeout(PERIOD);
        let has_streams = Stream::BOTH
            .iter()
            .any(|&stream| ledger.cell(stream).state() == StreamState::Open);
        if !has_streams || ledger.stage() == RankStage::Running {
            return;
        }
        if ledger.stage() == RankStage::Starting {
            continue;
        }
        let launcher = ledger.launcher_pid.load(SeqCst);
        let ranks = ranks(path);
        let strangers = || {
            children(launcher)
                .iter()
                .filter(|&&child| is_stranger(child, &ranks))
                .count()
        };
        let verdict = judge(&ranks, ledger.local_ranks.load(SeqCst), strangers);
        seen = if verdict == seen.0 {
            (verdict, seen.1 + 1)
        } else {
            (verdict, 1)
        };
        if verdict != Verdict::Fine && seen.1 >= LOOKS {
            if is_first(ledger.rank_pid.load(SeqCst), &ranks) {
                end_job(&describe(verdict), launcher, &ranks);
            }
            return;
        }
    }
}

fn judge(ranks: &[Rank], local_ranks: u32, strangers: impl FnOnce() -> usize) -> Verdict {
    let is_lost = |rank: &&Rank| !rank.lives && rank.stage != RankStage::Running;
    if let Some(rank) = ranks.iter().find(is_lost) {
        return Verdict::Dead(rank.number);
    }
    let missing = local_ranks.saturating_sub(ranks.len() as u32);
    if missing > 0 && strangers() == 0 {
        Verdict::NeverStarted(missing)
    } else {
        Verdict::Fine
    }
}

fn describe(verdict: Verdict) -> String {
    let who = match verdict {
        Verdict::Dead(number) => format!("rank {number} ended"),
        Verdict::NeverStarted(count) => format!("{count} rank(s) of this node ended"),
        Verdict::Fine => String::new(),
    };
    format!("{who} before or during MPI_Init, where the others would wait for ever; the job ends; start the job again")
}

/// Says why, and has the launcher end the job; if that is of no use, ends the ranks of this node.
pub(super) fn end_job(why: &str, launcher_pid: u32, ranks: &[Rank]) {
    eprintln!("understudy: {why}");
    // The launcher passes nothing on any more once it ends.
    std::thread::sleep(PERIOD);
    let told = Instant::now();
    if sys::signal(launcher_pid, libc::SIGTERM) {
        while living(ranks).next().is_some() && told.elapsed() < PATIENCE {
            std::thread::sleep(PERIOD);
        }
    }
    kill(ranks);
    launcher::see_off(launcher_pid);
}

/// Says why, and ends the ranks of this node: the launcher's status is that of a rank that has ended by itself.
pub(super) fn end_ranks(why: &str, ranks: &[Rank]) {
    eprintln!("understudy: {why}");
    std::thread::sleep(PERIOD);
    kill(ranks);
}

fn living(ranks: &[Rank]) -> impl Iterator<Item = &Rank> {
    ranks.iter().filter(|rank| rank.lives && lives(rank.pid))
}

fn kill(ranks: &[Rank]) {
    for rank in living(ranks) {
        sys::signal(rank.pid, libc::SIGKILL);
    }
}

/// Whether this is the rank whose relay acts: the first of those that wait.
fn is_first(pid: u32, ranks: &[Rank]) -> bool {
    let waiting = ranks
        .iter()
        .filter(|rank| rank.lives && rank.stage == RankStage::Initialising);
    waiting
        .min_by_key(|rank| rank.number)
        .is_some_and(|rank| rank.pid == pid)
}

/// Whether a child of the launcher lives and is none of the known ranks: it may become one.
fn is_stranger(child: u32, ranks: &[Rank]) -> bool {
    ranks.iter().all(|rank| rank.pid != child) && lives(child)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(number: u32, stage: RankStage, lives: bool) -> Rank {
        Rank {
            number,
            pid: 100 + number,
            stage,
            lives,
            is_idle: false,
            has_left: false,
        }
    }

    #[test]
    fn only_a_rank_that_will_never_come_ends_the_job() {
        use RankStage::{Initialising, Running, Starting};
        let waiting = rank(0, Initialising, true);
        let verdict = |other: Rank| judge(&[waiting, other], 2, || 0);
        assert_eq!(verdict(rank(1, Starting, true)), Verdict::Fine, "it is slow");
        assert_eq!(verdict(rank(1, Running, false)), Verdict::Fine, "others notice");
        assert_eq!(verdict(rank(1, Starting, false)), Verdict::Dead(1));
        assert_eq!(verdict(rank(1, Initialising, false)), Verdict::Dead(1));
    }

    #[test]
    fn a_rank_without_a_ledger_may_still_come_while_the_launcher_has_a_child() {
        let waiting = rank(0, RankStage::Initialising, true);
        assert_eq!(judge(&[waiting], 1, || 0), Verdict::Fine);
        assert_eq!(judge(&[waiting], 3, || 1), Verdict::Fine);
        assert_eq!(judge(&[waiting], 3, || 0), Verdict::NeverStarted(2));
    }
}
