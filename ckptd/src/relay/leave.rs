//! Ends a job that a rank has left without `MPI_Finalize`.
//!
//! Open MPI's launcher ends such a job at once, but not under `--with-ft`: the others wait for ever as soon as they want
//! something of that rank. Its relay gives them a while to end by themselves, and then ends the job. Idle spares wait for
//! nothing once no worker of their node is left. (Ranks of nodes on which none has left are the launcher's to end.)

use super::job::{Rank, ranks};
use super::ledger::Ledger;
use super::sys;
use super::watch::{end_job, end_ranks};
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(50);
/// How long the others may go on.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is to be done about the ranks of this node.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// They work, or another relay looks after them.
    Wait,
    /// Nobody is left.
    Done,
    /// Only these idle spares are left.
    Release(Vec<u32>),
}

/// Looks after the others if the own rank, which has ended, has left them.
pub(super) fn end_others(ledger: &Ledger, path: &Path) {
    let Some(status) = ledger.left() else { return };
    let (own, begun) = (ledger.rank_pid.load(SeqCst), Instant::now());
    loop {
        let ranks = ranks(path);
        match judge(&ranks) {
            Verdict::Done => return,
            Verdict::Release(spares) => {
                for spare in spares {
                    sys::signal(spare, libc::SIGKILL);
                }
                return;
            }
            Verdict::Wait if begun.elapsed() < PATIENCE => std::thread::sleep(PERIOD),
            Verdict::Wait => {
                if let Some(first) = first_to_leave(&ranks).filter(|first| first.pid == own) {
                    let what = format!(
                        "rank {} ended with status {status} without MPI_Finalize, and others still run {} s later; the job ends",
                        first.number,
                        PATIENCE.as_secs()
                    );
                    if status == 0 {
                        // The launcher would tell of success.
                        end_job(&what, ledger.launcher_pid.load(SeqCst), &ranks);
                    } else {
                        end_ranks(&what, &ranks);
                    }
                }
                return;
            }
        }
    }
}

fn judge(ranks: &[Rank]) -> Verdict {
    let living: Vec<&Rank> = ranks.iter().filter(|rank| rank.lives).collect();
    if living.is_empty() {
        Verdict::Done
    } else if living.iter().all(|rank| rank.is_idle) {
        Verdict::Release(living.iter().map(|rank| rank.pid).collect())
    } else {
        Verdict::Wait
    }
}

/// Of several that have left, the relay of one acts.
fn first_to_leave(ranks: &[Rank]) -> Option<&Rank> {
    let left = ranks.iter().filter(|rank| !rank.lives && rank.has_left);
    left.min_by_key(|rank| rank.number)
}

#[cfg(test)]
mod tests {
    use super::super::ledger::RankStage;
    use super::*;

    fn rank(number: u32, lives: bool, is_idle: bool) -> Rank {
        Rank {
            number,
            pid: 100 + number,
            stage: RankStage::Running,
            lives,
            is_idle,
            has_left: !lives,
        }
    }

    #[test]
    fn spares_are_released_when_no_worker_is_left() {
        let (gone, worker, spare) = (rank(0, false, false), rank(1, true, false), rank(2, true, true));
        assert_eq!(judge(&[gone, worker, spare]), Verdict::Wait);
        assert_eq!(judge(&[gone, spare]), Verdict::Release(vec![102]));
        assert_eq!(judge(&[gone]), Verdict::Done);
    }

    #[test]
    fn one_relay_acts() {
        let died = Rank {
            has_left: false,
            ..rank(0, false, false)
        };
        let ranks = [rank(3, false, false), died, rank(1, false, false), rank(2, true, false)];
        assert_eq!(first_to_leave(&ranks).map(|rank| rank.number), Some(1));
    }
}
