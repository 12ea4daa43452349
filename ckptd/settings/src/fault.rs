//! The grammar of `UNDERSTUDY_FAULT`: faults, separated by `;`.
//!
//! ```text
//! fault   = action who "at=" where ["epoch=" E] ["delay=" time] ["copy=" copy]
//!         | "delay-end until=" FILE | "pretend" what | "blind" | "lose-landings" | "count"
//! action  = "kill" | "kill-manager" | "wait" | "renew" | "corrupt"
//! copy    = "held" | "own" | "state" | "journal" | "half-journal"  (with "corrupt" only)
//! what    = "no-pagemap-scan" | "no-userfaultfd" | "no-personality" | "no-memfd"
//! who     = "rank=" R | "spare=" S
//! where   = POINT | "call:" N | "time:" T
//! ```

use super::points;
use std::path::PathBuf;
use std::time::Duration;

/// Target of the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultTarget {
    /// The process with this rank in the launcher's world, whichever worker it runs.
    Rank(u32),
    /// The spare with this number.
    Spare(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultPosition {
    /// Passages of a fault point, all of them or those of one epoch.
    ///
    /// `point` is an index into [`points::POINTS`].
    Point { point: usize, epoch: Option<u64> },
    /// At the entry of the rank's N-th MPI call, from 1.
    Call(u64),
    /// This long after the start of the process.
    Time(Duration),
}

/// A kernel feature that is treated as missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingFeature {
    /// PAGEMAP_SCAN (before Linux 6.7).
    PagemapScan,
    /// userfaultfd(2), or the permission to use it.
    Userfaultfd,
    /// personality(2), which only the preload library uses.
    Personality,
    /// memfd_create(2) for replicas that outlive their process.
    Memfd,
}

/// Stored data that the fault damages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// A page in the middle of each replica that the rank stores for other workers.
    ///
    /// With parity, every page of the rank's parity.
    Stored,
    /// Every page of the rank's own replica.
    ///
    /// A survivor restores only the pages that it has modified since the checkpoint. A single
    /// damaged page might not be among them.
    Own,
    /// Data other than pages, in each replica that the rank stores for other workers.
    State,
    /// Each journal that the rank stores.
    Journal(Damage),
}

/// Kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    Bit,
    /// The second half is removed.
    Half,
}

/// Effect of a fault on a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Kill,
    /// Kills the node manager of the rank's node. A process does so at most once.
    KillManager,
    /// Only delays the rank.
    Wait,
    /// Makes all processes initialise MPI again, although no process has died.
    Reinit,
    /// Damages replicas or journals that the rank stores.
    Corrupt(Victim),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A rank waits, and then the action is performed.
    Strike {
        target: FaultTarget,
        at: FaultPosition,
        delay: Duration,
        action: Action,
    },
    /// The workers wait in MPI_Finalize, and recover from failures there, until the file exists.
    DelayEnd { until: PathBuf },
    /// A kernel feature is treated as missing.
    Pretend(MissingFeature),
    /// The kernel does not report what the MPI library writes.
    ///
    /// A network device that writes into registered memory has this effect.
    Blind,
    /// Landings are not noted, as by a defect of the runtime.
    LoseLandings,
    /// Counts fault points and MPI calls; the process writes the counts at its end.
    Count,
}

const MISSING_FEATURES: [(&str, MissingFeature); 4] = [
    ("no-pagemap-scan", MissingFeature::PagemapScan),
    ("no-userfaultfd", MissingFeature::Userfaultfd),
    ("no-personality", MissingFeature::Personality),
    ("no-memfd", MissingFeature::Memfd),
];

/// Parses the faults in `text`.
///
/// # Errors
/// Fails with a message about the malformed part of the text.
pub fn parse(text: &str) -> Result<Vec<Fault>, String> {
    text.split(';')
        .map(|fault| parse_fault(fault.trim()))
        .collect()
}

/// Returns `text` without the faults that strike a process.
///
/// Returns `None` if `text` contains no other fault.
///
/// Such a fault has struck the earlier process of a number, and must not strike the process that
/// replaces it. Other faults concern all processes alike.
pub fn without_strikes(text: &str) -> Option<String> {
    let is_strike = |fault: &str| matches!(parse_fault(fault), Ok(Fault::Strike { .. }));
    let faults = text.split(';').map(str::trim);
    let others: Vec<_> = faults.filter(|fault| !is_strike(fault)).collect();
    (!others.is_empty()).then(|| others.join("; "))
}

fn parse_fault(text: &str) -> Result<Fault, String> {
    let mut words = text.split_whitespace();
    match words.next() {
        Some("kill") => strike(text, words, Action::Kill),
        Some("kill-manager") => strike(text, words, Action::KillManager),
        Some("wait") => strike(text, words, Action::Wait),
        Some("renew") => strike(text, words, Action::Reinit),
        Some("corrupt") => strike(text, words, Action::Corrupt(Victim::Stored)),
        Some("delay-end") => {
            let file = words.next().and_then(|word| word.strip_prefix("until="));
            match file.filter(|file| !file.is_empty() && words.next().is_none()) {
                Some(file) => Ok(Fault::DelayEnd { until: file.into() }),
                None => Err(format!("`{text}` is not `delay-end until=FILE`")),
            }
        }
        Some("pretend") => pretend(text, words),
        Some("blind") if words.next().is_none() => Ok(Fault::Blind),
        Some("lose-landings") if words.next().is_none() => Ok(Fault::LoseLandings),
        Some("count") if words.next().is_none() => Ok(Fault::Count),
        _ => Err(format!(
            "`{text}` starts with none of `kill`, `kill-manager`, `wait`, `renew`, `corrupt`, \
             `delay-end`, `pretend`, `blind`, `lose-landings`, `count`"
        )),
    }
}

fn pretend<'a>(text: &str, mut words: impl Iterator<Item = &'a str>) -> Result<Fault, String> {
    let feature = words.next().filter(|_| words.next().is_none());
    let known = MISSING_FEATURES
        .iter()
        .find(|(name, _)| Some(*name) == feature);
    known
        .map(|(_, feature)| Fault::Pretend(*feature))
        .ok_or_else(|| {
            let all = MISSING_FEATURES.map(|(name, _)| format!("`pretend {name}`"));
            format!("`{text}` is none of {}", all.join(", "))
        })
}

fn strike<'a>(
    text: &str,
    words: impl Iterator<Item = &'a str>,
    mut action: Action,
) -> Result<Fault, String> {
    let (mut target, mut at, mut epoch, mut delay) = (None, None, None, Duration::ZERO);
    for word in words {
        let wrong = || format!("`{word}`: the value must be an integer that is not negative");
        let rank = |value: &str| value.parse::<u32>().map_err(|_| wrong());
        match word.split_once('=') {
            Some(("rank", value)) => target = Some(FaultTarget::Rank(rank(value)?)),
            Some(("spare", value)) => target = Some(FaultTarget::Spare(rank(value)?)),
            Some(("epoch", value)) => epoch = Some(value.parse().map_err(|_| wrong())?),
            Some(("delay", value)) => delay = time(value)?,
            Some(("at", value)) => at = Some(value),
            Some(("copy", value)) if matches!(action, Action::Corrupt(_)) => {
                action = Action::Corrupt(victim(value)?)
            }
            _ => {
                return Err(format!(
                    "`{word}` is none of `rank=`, `spare=`, `at=`, `epoch=`, `delay=`, and \
                     `copy=` of `corrupt`"
                ));
            }
        }
    }
    let (Some(target), Some(at)) = (target, at) else {
        return Err(format!("`{text}` needs `rank=` or `spare=`, and `at=`"));
    };
    let at = position(at, epoch)?;
    if action == Action::Wait && delay.is_zero() {
        return Err(format!("`{text}` waits for no time; add `delay=`"));
    }
    if matches!(action, Action::Corrupt(_)) && !matches!(at, FaultPosition::Point { .. }) {
        return Err(format!(
            "`{text}`: replicas can only be damaged at a fault point"
        ));
    }
    if matches!(at, FaultPosition::Time(_)) && !(action == Action::Kill && delay.is_zero()) {
        return Err(format!(
            "`{text}`: `at=time:` can be combined only with `kill`, and not with `delay=`"
        ));
    }
    Ok(Fault::Strike {
        target,
        at,
        delay,
        action,
    })
}

const VICTIMS: [(&str, Victim); 5] = [
    ("held", Victim::Stored),
    ("own", Victim::Own),
    ("state", Victim::State),
    ("journal", Victim::Journal(Damage::Bit)),
    ("half-journal", Victim::Journal(Damage::Half)),
];

fn victim(text: &str) -> Result<Victim, String> {
    let known = VICTIMS.iter().find(|(name, _)| *name == text);
    known.map(|(_, victim)| *victim).ok_or_else(|| {
        let names = VICTIMS.map(|(name, _)| format!("`copy={name}`"));
        format!("`copy={text}` is none of {}", names.join(", "))
    })
}

fn position(at: &str, epoch: Option<u64>) -> Result<FaultPosition, String> {
    let position = match at.split_once(':') {
        Some(("call", number)) => number
            .parse()
            .ok()
            .filter(|&call| call > 0)
            .map(FaultPosition::Call),
        Some(("time", text)) => Some(FaultPosition::Time(time(text)?)),
        _ => points::find(at).map(|point| FaultPosition::Point { point, epoch }),
    };
    match position {
        Some(FaultPosition::Call(_) | FaultPosition::Time(_)) if epoch.is_some() => {
            Err(format!("`at={at}` and `epoch=` exclude each other"))
        }
        Some(position) => Ok(position),
        None => {
            let names: Vec<_> = points::POINTS.iter().map(|point| point.name).collect();
            Err(format!(
                "`at={at}` is none of `call:N`, `time:T`, {}",
                names.join(", ")
            ))
        }
    }
}

/// Parses a time in the format of the settings, such as `500ms` or `2.5s`.
fn time(text: &str) -> Result<Duration, String> {
    let (amount, scale) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(amount), _) => (amount, 1e-3),
        (None, Some(amount)) => (amount, 1.0),
        (None, None) => return Err(format!("`{text}` is not a time; `500ms` and `2.5s` are")),
    };
    let seconds = amount.parse::<f64>().ok().map(|amount| amount * scale);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| format!("`{text}` is not a time; `500ms` and `2.5s` are"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kill(target: FaultTarget, at: FaultPosition) -> Fault {
        Fault::Strike {
            target,
            at,
            delay: Duration::ZERO,
            action: Action::Kill,
        }
    }

    #[test]
    fn faults_of_all_processes_remain_without_strikes() {
        let text = "kill rank=2 at=cut.begin; delay-end until=/tmp/done;wait spare=0 at=call:1 \
                    delay=1s; blind";
        let others = without_strikes(text).unwrap();
        assert_eq!(others, "delay-end until=/tmp/done; blind");
        assert_eq!(without_strikes("kill rank=2 at=cut.begin"), None);
    }

    #[test]
    fn a_fault_names_target_and_position() {
        let half = points::find("ship.half").unwrap();
        let third = FaultPosition::Point {
            point: half,
            epoch: Some(3),
        };
        assert_eq!(
            parse("kill rank=2 at=ship.half epoch=3"),
            Ok(vec![kill(FaultTarget::Rank(2), third)])
        );
        let several = parse(
            "kill rank=0 at=call:1234; kill spare=1 at=time:2.5s;count; pretend no-userfaultfd; \
             delay-end until=/tmp/done",
        )
        .unwrap();
        assert_eq!(
            several,
            [
                kill(FaultTarget::Rank(0), FaultPosition::Call(1234)),
                kill(
                    FaultTarget::Spare(1),
                    FaultPosition::Time(Duration::from_millis(2500))
                ),
                Fault::Count,
                Fault::Pretend(MissingFeature::Userfaultfd),
                Fault::DelayEnd {
                    until: "/tmp/done".into()
                },
            ]
        );
        let waits = parse("wait rank=1 at=initialise.begin delay=200ms").unwrap();
        assert!(
            matches!(waits[..], [Fault::Strike { action: Action::Wait, delay, .. }] if delay == Duration::from_millis(200))
        );
    }

    #[test]
    fn copies_are_damaged_at_fault_points() {
        let damaged = |text: &str| match parse(text).as_deref() {
            Ok([Fault::Strike { action, .. }]) => Some(*action),
            _ => None,
        };
        let at = |copy| damaged(&format!("corrupt rank=1 at=commit.end epoch=2{copy}"));
        assert_eq!(at(""), Some(Action::Corrupt(Victim::Stored)));
        assert_eq!(at(" copy=own"), Some(Action::Corrupt(Victim::Own)));
        assert_eq!(at(" copy=state"), Some(Action::Corrupt(Victim::State)));
        assert_eq!(
            at(" copy=half-journal"),
            Some(Action::Corrupt(Victim::Journal(Damage::Half)))
        );
    }

    #[test]
    fn malformed_faults_are_refused() {
        for wrong in [
            "",
            "kill",
            "kill rank=1",
            "kill at=cut.begin",
            "spare rank=1 at=cut.begin",
            "kill rank=x at=cut.begin",
            "kill rank=4294967297 at=cut.begin",
            "kill rank=1 at=cut.begin soon",
            "kill rank=1 at=lunch",
            "kill rank=1 at=call:0",
            "kill rank=1 at=call:5 epoch=2",
            "kill rank=1 at=time:soon",
            "wait rank=1 at=cut.begin",
            "wait rank=1 at=time:1s delay=1s",
            "delay-end",
            "delay-end until=",
            "delay-end until=/tmp/done now",
            "pretend",
            "pretend no-memory",
            "count twice",
            "blind twice",
            "lose-landings twice",
            "kill rank=1 at=cut.begin;",
            "kill rank=1 at=cut.begin copy=own",
            "corrupt rank=1 at=call:7",
            "corrupt rank=1 at=cut.begin copy=both",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
