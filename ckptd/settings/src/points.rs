//! The table of fault points.

/// A position in the code at which a test may kill a rank.
///
/// A fault point has a name, `stage.event`, and a description of the moment.
pub struct Point {
    /// Value of `at=`.
    pub name: &'static str,
    pub moment: &'static str,
}

macro_rules! points {
    ($($name:literal: $moment:literal;)*) => {
        /// Every fault point. All living ranks pass the points of a recovery's stages.
        pub const POINTS: &[Point] = &[$(Point { name: $name, moment: $moment }),*];
    };
}

points! {
    "boot.begin": "the runtime is loaded, in the first constructor of the process";
    "boot.end": "understudy is ready, before the program's own constructors";
    "init.begin": "MPI_Init was called; the MPI library's MPI_Init was not";
    "init.end": "the first checkpoint is committed; MPI_Init has not returned";
    "cut.begin": "the workers have agreed on a cut";
    "cut.agreed": "all workers make the cut; messages are in flight";
    "cut.end": "no message crosses the cut any more";
    "capture.begin": "nothing is copied yet";
    "capture.end": "the changed pages and the state are copied";
    "ship.begin": "the transfers to the buddy, and from the worker whose buddy this is, are \
        started";
    "ask.begin": "the buddy was asked which pages it has itself; no page is under way";
    "ask.end": "the question of the other worker has arrived and is not answered";
    "ship.half": "the header of the other worker's replica has arrived, its pages have not";
    "ship.end": "the own pages are at the buddy, the other worker's replica is complete";
    "whole.begin": "the other worker's replica is complete; no process knows this yet, and none \
        can inherit it";
    "commit.begin": "before this rank reports that the other worker's replica is complete";
    "commit.end": "the checkpoint is committed in this rank";
    "accumulate.half": "this rank holds the lock of a window's memory and accumulates there";
    "phase.begin": "the program sets data up anew: the next captured checkpoint begins another \
        set-up log";
    "phase.end": "the set-up log is complete; only its worker has it";
    "rehearse.begin": "a buddy has the set-up log of a worker, and no replay of it has begun";
    "rehearse.end": "the trial replay is over; its worker has no result yet";
    "thin.begin": "a buddy has the list of rebuilt pages; its replica still contains them";
    "thin.end": "the replica is reduced";
    "detect.begin": "a failure was detected; nothing was done";
    "detect.end": "the rank begins the recovery";
    "reset.begin": "before the MPI library is reset to its state before MPI_Init";
    "reset.end": "all processes have reset their MPI library";
    "drain.begin": "before this rank drops its operations under way";
    "drain.end": "no operation of this rank is under way";
    "initialise.begin": "before MPI is initialised again";
    "initialise.end": "all processes of the next generation have met";
    "agree.begin": "before the ranks exchange their roles and replicas";
    "agree.end": "the plan of the recovery exists";
    "replace.begin": "before the communicators of the new world are made";
    "replace.end": "the new world is agreed on";
    "fetch.begin": "before the replica of the failed worker is sent to the replacement";
    "replay.begin": "a replacement is about to rebuild pages that its replica lacks";
    "replay.end": "the replica is complete";
    "fetch.end": "the replica is at the replacement";
    "load.begin": "before memory is restored";
    "step-back.begin": "a survivor has undone an incomplete step, and is about to undo the \
        complete ones";
    "load.half": "a survivor is about to have static data made again that it has changed since the \
        checkpoint";
    "load.end": "memory and state are those of the checkpoint";
    "rebuild.begin": "before the communicators of the program are made again";
    "rebuild.half": "some communicators of the program are made again";
    "rebuild.end": "the communicators of the program are made again";
    "reprotect.begin": "before lost replicas are made again";
    "reprotect.end": "lost replicas are made again";
    "resume.begin": "the recovery is agreed on; receives are not posted again yet";
    "repost.begin": "one more request of the program is about to be made again";
    "resume.end": "the program continues";
    "restart.end": "a job was started again from disk, and this rank continues";
    "finalize.begin": "MPI_Finalize was called";
    "finalize.agreed": "the workers have met; the spares wait, and checkpoints are still on disk";
    "finalize.end": "the workers have met, the spares are released; no failure is recovered from \
        any more";
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
}
