//! Named fault points: places where a test may let a rank die.

use crate::cell::Main;

#[derive(Debug, PartialEq, Eq)]
struct Fault {
    rank: u32,
    at: String,
    epoch: Option<u64>,
}

static FAULTS: Main<Vec<Fault>> = Main::new(Vec::new());

fn parse(text: &str) -> Result<Fault, String> {
    let mut words = text.split_whitespace();
    if words.next() != Some("kill") {
        return Err(format!("`{text}` does not start with `kill`"));
    }
    let (mut rank, mut at, mut epoch) = (None, None, None);
    for word in words {
        let value = |value: &str| value.parse::<u64>().map_err(|_| format!("`{word}` has no number"));
        match word.split_once('=') {
            Some(("rank", text)) => rank = Some(value(text)? as u32),
            Some(("epoch", text)) => epoch = Some(value(text)?),
            Some(("at", text)) => at = Some(text.to_owned()),
            _ => return Err(format!("`{word}` is none of `rank=`, `at=`, `epoch=`")),
        }
    }
    match (rank, at) {
        (Some(rank), Some(at)) => Ok(Fault { rank, at, epoch }),
        _ => Err(format!("`{text}` needs `rank=` and `at=`")),
    }
}

/// Sets the deaths to be died: `kill rank=R at=POINT [epoch=E]`, several separated by `;`.
pub fn set(text: &str) -> Result<(), String> {
    *FAULTS.get() = text.split(';').map(parse).collect::<Result<_, _>>()?;
    Ok(())
}

/// A fault point; one load and a predictable branch when nothing is set.
#[inline]
pub fn point(name: &str, epoch: u64) {
    if !FAULTS.get().is_empty() {
        reached(name, epoch);
    }
}

#[cold]
fn reached(name: &str, epoch: u64) {
    // The launcher's rank: who takes a dead rank's part does not die its death again.
    let rank = crate::boot::launcher_rank();
    let due = |fault: &Fault| fault.rank == rank && fault.at == name && fault.epoch.is_none_or(|due| due == epoch);
    if FAULTS.get().iter().any(due) {
        crate::events::emit(ckptd::events::Kind::Kill { signal: libc::SIGKILL });
        crate::sys::kill_self();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_names_rank_and_point() {
        assert_eq!(
            parse("kill rank=2 at=ship.half epoch=3"),
            Ok(Fault {
                rank: 2,
                at: "ship.half".into(),
                epoch: Some(3)
            })
        );
        assert_eq!(
            parse("kill at=cut.begin rank=0"),
            Ok(Fault {
                rank: 0,
                at: "cut.begin".into(),
                epoch: None
            })
        );
        for wrong in [
            "",
            "kill",
            "kill rank=1",
            "spare rank=1 at=x",
            "kill rank=x at=y",
            "kill rank=1 at=y soon",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
