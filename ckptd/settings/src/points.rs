//! The table of fault points.

/// A position in the code at which a test may kill a rank.
///
/// It has a name, `stage.event`, and a description of the moment.
pub struct Point {
    /// Value of `at=`.
    pub name: &'static str,
    pub moment: &'static str,
}

macro_rules! points {
    ($($name:literal: $moment:literal;)*) => {
        /// Every fault point. All living ranks pass those of a recovery's stages.
        pub const POINTS: &[Point] = &[$(Point { name: $name, moment: $moment }),*];
    };
}

points! {
    "boot.begin": "the runtime has been loaded, in the process's first constructor";
    "boot.end": "the layer is ready, before the program's own constructors";
    "init.begin": "MPI_Init was called, the real one not yet";
    "init.end": "the first checkpoint is committed, MPI_Init has not returned";
    "cut.begin": "a cut was agreed on";
    "cut.agreed": "all workers make the cut; messages are in flight";
    "cut.end": "no message crosses the cut any more";
    "capture.begin": "nothing has been copied";
    "capture.end": "the changed pages and the state are copied";
    "ship.begin": "the transfers to the buddy and from the partner have been started";
    "ask.begin": "the buddy has been asked which pages it has itself; none is on its way";
    "ask.end": "the partner's question is here, and not answered";
    "ship.half": "the partner's header is there, its pages are not";
    "ship.end": "the own copy is at the buddy, the partner's is whole";
    "whole.begin": "the partner's copy is whole, of which no process knows yet, nor who inherits \
        from this one";
    "commit.begin": "before this rank says that its partner's copy is whole";
    "commit.end": "the epoch counts in this rank";
    "accumulate.half": "this rank holds the lock of a window's memory and accumulates there";
    "phase.begin": "the program sets up anew: the epoch that is about to be captured begins \
        another journal";
    "phase.end": "the journal of the initialisation phase is complete; only its worker has it";
    "rehearse.begin": "a holder has a worker's journal, and nobody has begun to replay it";
    "rehearse.end": "the rehearsal is over; its worker does not know yet";
    "thin.begin": "a holder knows what a replay makes, and the copy still has it";
    "thin.end": "the copy is without it";
    "detect.begin": "a failure was noticed, nothing has been done";
    "detect.end": "the rank goes into the recovery";
    "reset.begin": "before the MPI library is put back to before MPI_Init";
    "reset.end": "all processes have put theirs back";
    "drain.begin": "before this rank forgets what it had under way";
    "drain.end": "nothing of this rank is under way any more";
    "initialise.begin": "before MPI is initialised again";
    "initialise.end": "all processes of the next generation have met";
    "agree.begin": "before the ranks say who they are and what they have";
    "agree.end": "there is a plan";
    "replace.begin": "before the new world's communicators are made";
    "replace.end": "the new world is agreed on";
    "fetch.begin": "before the dead rank's copy is sent to its understudy";
    "replay.begin": "an understudy is about to rebuild what its copy lacks";
    "replay.end": "its copy is whole";
    "fetch.end": "the copy is at the understudy";
    "load.begin": "before memory is put back";
    "step-back.begin": "a survivor has undone a step that was not complete, and is about to undo \
        those that were";
    "load.half": "a survivor is about to have static data made again that it has changed since \
        the epoch";
    "load.end": "memory and state are those of the epoch";
    "rebuild.begin": "before the program's communicators are made again";
    "rebuild.half": "some of the program's communicators are made again";
    "rebuild.end": "the program's communicators are made again";
    "reprotect.begin": "before lost copies are made again";
    "reprotect.end": "lost copies are made again";
    "resume.begin": "the recovery is agreed on, receives are not yet posted again";
    "repost.begin": "one more of the program's requests is about to be made again";
    "resume.end": "the program goes on";
    "restart.end": "a job is started again from disk, and this rank goes on";
    "finalize.begin": "MPI_Finalize was called";
    "finalize.agreed": "the workers have met; the spares wait, and epochs are still on disk";
    "finalize.end": "the workers have met, the spares are released; nothing is recovered from any \
        more";
}

/// Returns the point's index in the table.
///
/// The name of a stage stands for its end.
pub fn find(name: &str) -> Option<usize> {
    let is_named =
        |point: &Point| point.name == name || point.name.strip_suffix(".end") == Some(name);
    POINTS.iter().position(is_named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for (index, point) in POINTS.iter().enumerate() {
            assert_eq!(find(point.name), Some(index), "{}", point.name);
        }
        assert_eq!(find("initialise"), find("initialise.end"));
        assert_eq!(find("ship.quarter"), None);
    }

    #[test]
    fn the_guide_lists_every_point() {
        let guide = include_str!("../../../docs/guide.md");
        let rows: Vec<&str> = guide
            .lines()
            .skip_while(|line| *line != "### Fault points")
            .filter(|line| line.starts_with("| `"))
            .take(POINTS.len())
            .collect();
        let wanted: Vec<String> = POINTS
            .iter()
            .map(|point| format!("| `{}` | {} |", point.name, point.moment))
            .collect();
        assert_eq!(rows, wanted);
    }
}
