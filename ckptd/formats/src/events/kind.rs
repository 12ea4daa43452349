//! Kinds of records. Any change here is a new [`super::VERSION`].

use super::tables::{JournalCalls, MarkSaving, Traffic};
use crate::describe::{Describe, Value, described};
use bincode::{Decode, Encode};
use std::fmt;
use understudy_numbers::{Epoch, ProcessNumber, Spare, Worker};

/// Role of a process at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum Role {
    Worker(Worker),
    Spare(Spare),
}

impl Describe for Role {
    fn describe(&self) -> Value {
        match self {
            Self::Worker(worker) => Value::field("worker", worker),
            Self::Spare(spare) => Value::field("spare", spare),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Worker(n) => write!(f, "worker {n}"),
            Self::Spare(n) => write!(f, "spare {n}"),
        }
    }
}

/// Through what a failure became known: the outcome of an MPI call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum ErrorClass {
    Abandoned,
    /// An error class, by its number.
    Other(i32),
}

impl Describe for ErrorClass {
    fn describe(&self) -> Value {
        match self {
            Self::Abandoned => Value::text("abandoned"),
            Self::Other(class) => Value::field("other", class),
        }
    }
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Abandoned => f.write_str("an abandoned call"),
            Self::Other(class) => write!(f, "error class {class}"),
        }
    }
}

/// The stages of a recovery, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum RecoveryStage {
    Detect,
    Reset,
    Drain,
    Initialise,
    Agree,
    Replace,
    Fetch,
    Load,
    Rebuild,
    Reprotect,
    Resume,
}

impl RecoveryStage {
    /// All stages in their order.
    pub const ALL: [Self; 11] = [
        Self::Detect,
        Self::Reset,
        Self::Drain,
        Self::Initialise,
        Self::Agree,
        Self::Replace,
        Self::Fetch,
        Self::Load,
        Self::Rebuild,
        Self::Reprotect,
        Self::Resume,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Detect => "detect",
            Self::Reset => "reset",
            Self::Drain => "drain",
            Self::Initialise => "initialise",
            Self::Agree => "agree",
            Self::Replace => "replace",
            Self::Rebuild => "rebuild",
            Self::Fetch => "fetch",
            Self::Load => "load",
            Self::Reprotect => "reprotect",
            Self::Resume => "resume",
        }
    }
}

impl Describe for RecoveryStage {
    fn describe(&self) -> Value {
        Value::text(self.name())
    }
}

impl fmt::Display for RecoveryStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// End of a rank, as the rank itself has recorded it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum EndHow {
    Finalized,
    /// `exit` with this status without `MPI_Finalize`.
    Exited(i32),
    /// `MPI_Abort` with this code.
    Aborted(i32),
    /// A spare that was never needed was released.
    Released,
}

impl Describe for EndHow {
    fn describe(&self) -> Value {
        match self {
            Self::Finalized => Value::text("finalized"),
            Self::Exited(status) => Value::field("exited", status),
            Self::Aborted(code) => Value::field("aborted", code),
            Self::Released => Value::text("released"),
        }
    }
}

impl fmt::Display for EndHow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finalized => f.write_str("finalized"),
            Self::Exited(status) => write!(f, "exited with status {status}, not finalized"),
            Self::Aborted(code) => write!(f, "aborted with code {code}"),
            Self::Released => f.write_str("released, never needed"),
        }
    }
}

described! {
    /// Choice of the process that replaces a worker.
    #[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
    pub struct SpareChoice {
        pub worker: Worker,
        pub rank: ProcessNumber,
        /// True if ckptd has chosen the spare; otherwise the built-in rule has.
        pub by_daemon: bool,
    }
}

/// Defines the kinds with their names, and implements [`Describe`] for them.
///
/// A `flat` kind shows the fields of its value as its own.
macro_rules! kinds {
    ($(#[$meta:meta])* pub enum $kind:ident {
        $($(#[$variant_meta:meta])* $variant:ident = $name:literal
            $({ $($(#[$field_meta:meta])* $field:ident: $type:ty),* $(,)? })?
            $(flat { $value:ident: $inner:ty })?,)*
    }) => {
        $(#[$meta])*
        pub enum $kind {
            $($(#[$variant_meta])* $variant
                $({ $($(#[$field_meta])* $field: $type),* })?
                $({ $value: $inner })?,)*
        }

        impl $kind {
            /// Returns the name of the kind, as in JSON.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $name,)*
                }
            }
        }

        impl Describe for $kind {
            fn describe(&self) -> Value {
                let mut fields = vec![("type", Value::text(self.name()))];
                match self {
                    $(Self::$variant $({ $($field),* })? $({ $value })? => {
                        $($(fields.push((stringify!($field), $field.describe()));)*)?
                        $(fields.extend($value.describe().into_fields());)?
                    })*
                }
                Value::Map(fields)
            }
        }
    };
}

kinds! {
    /// Event that is recorded.
    ///
    /// Durations are nanoseconds; `recovery` counts the job's recoveries from 1.
    #[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
    pub enum Kind {
        /// The rank is up. `job` tells apart jobs that wrote to the same directory.
        Start = "start" {
            pid: u32,
            world_rank: ProcessNumber,
            role: Role,
            workers: u32,
            spares: u32,
            host: String,
            program: String,
            command: Vec<String>,
            version: String,
            job: String,
        },
        /// The settings in force.
        Config = "config" { settings: Vec<(String, String)> },
        /// A consistent cut was taken at the `at_call`-th candidate call out of `candidates` seen.
        Cut = "cut" {
            epoch: Epoch,
            at_call: u64,
            candidates: u64,
        },
        /// The rank's own state was captured.
        Capture = "capture" {
            epoch: Epoch,
            pages: u64,
            bytes: u64,
            scan_ns: u64,
            copy_ns: u64,
        },
        /// Pages that annotations of the program (`understudy.h`) have elided from a capture.
        LeftOut = "left_out" {
            epoch: Epoch,
            /// Pages that would have been in the capture.
            pages: u64,
            /// The marks that have left out the most.
            marks: Vec<MarkSaving>,
        },
        /// The capture was handed to the buddy.
        Ship = "ship" {
            epoch: Epoch,
            to: ProcessNumber,
            bytes: u64,
            /// Pages that were not sent, since the buddy has them itself.
            alike: u64,
            ns: u64,
        },
        /// A buddy's capture arrived here.
        Received = "received" {
            epoch: Epoch,
            from: ProcessNumber,
            bytes: u64,
            ns: u64,
        },
        /// The epoch counts; `ns` since its cut.
        Commit = "commit" { epoch: Epoch, ns: u64 },
        /// The rank is about to kill itself on purpose (fault injection).
        Kill = "kill" { signal: i32 },
        /// Counts of passed fault points and of the program's MPI calls (`UNDERSTUDY_FAULT=count`).
        Passed = "passed" {
            calls: u64,
            points: Vec<(String, u64)>,
        },
        /// An idle spare has replayed the initialisation phase of a worker in a child process.
        Rehearsal = "rehearsal" {
            worker: Worker,
            /// Bytes of the journal.
            journal: u64,
            /// Pages compared.
            pages: u64,
            /// Pages that did not come out equal.
            different: u64,
            /// The mappings they are in, with how many there are in each.
            places: Vec<String>,
            /// Why the replay did not come to its end.
            failure: Option<String>,
            /// Time of the replay.
            replay_ns: u64,
            /// Time of the phase.
            phase_ns: u64,
        },
        /// The copy of a worker is without pages that can be rebuilt.
        Thinned = "thinned" {
            worker: Worker,
            /// Pages that are gone.
            pages: u64,
            /// Pages that are left.
            left: u64,
            /// Bytes of the journal that is kept instead.
            journal: u64,
        },
        /// The rank keeps no copy itself of pages that it can have made again.
        OwnThinned = "own_thinned" {
            /// Pages that are gone.
            pages: u64,
            /// Pages that are left.
            left: u64,
        },
        /// Decision on the way in which static data are restored.
        StaticData = "static_data" {
            worker: Worker,
            /// `replay` or `image`.
            way: String,
            reason: String,
        },
        /// Static data of the part that this process plays have been rebuilt.
        Rebuilt = "rebuilt" {
            worker: Worker,
            /// Pages.
            pages: u64,
            /// Duration of the rebuild.
            ns: u64,
        },
        /// Functions of the program have made memory again that copies do without.
        Recomputed = "recomputed" { regions: u64, bytes: u64, ns: u64 },
        /// A survivor has had functions of the program undo steps.
        Reversed = "reversed" {
            /// Pages that equal those of the checkpoint, and pages that were fetched instead.
            pages: u64,
            wrong: u64,
            /// Steps, but for one that was not complete.
            steps: u64,
            ns: u64,
        },
        /// The rank learned of failures.
        FailureDetected = "failure_detected" {
            recovery: u32,
            failed: Vec<ProcessNumber>,
            by: ErrorClass,
        },
        /// A process has died, as those who go on know; every one of them tells of it.
        Death = "death" {
            recovery: u32,
            rank: ProcessNumber,
            /// The part that it played.
            worker: Worker,
            /// A signal, with the place if the process has noted it; `unknown` if nobody saw it.
            cause: String,
        },
        /// Spares were chosen for failed workers; recorded by the process that has asked ckptd.
        SparesChosen = "spares_chosen" {
            recovery: u32,
            choices: Vec<SpareChoice>,
            /// Why the built-in rule has chosen, if it has.
            reason: Option<String>,
        },
        /// A stage of a recovery ended; it took `ns` on this rank.
        Stage = "stage" {
            recovery: u32,
            stage: RecoveryStage,
            ns: u64,
        },
        /// This process, so far the spare `from`, goes on as the worker `as_worker`.
        Takeover = "takeover" {
            recovery: u32,
            from: Spare,
            as_worker: Worker,
        },
        /// The rank is back in the program at `epoch`, `total_ns` after the failure.
        Resume = "resume" {
            recovery: u32,
            epoch: Epoch,
            total_ns: u64,
        },
        /// New checkpoint interval with `UNDERSTUDY_INTERVAL=auto`.
        ///
        /// Follows from the slowest worker's cost of a checkpoint and the estimated mean time
        /// between failures.
        Interval = "interval" {
            cost_ns: u64,
            mtbf_ns: u64,
            interval_ns: u64,
        },
        /// Traffic counts that earlier builds wrote; decoded, and not reported.
        Traffic = "traffic" flat { traffic: Traffic },
        /// Calls of a set-up log that has ended, or was given up.
        JournalCalls = "journal_calls" flat { calls: JournalCalls },
        /// Protection or recovery was refused.
        Refused = "refused" { reason: String },
        /// No worker can continue: the job ends with this status.
        Lost = "lost" { reason: String, status: i32 },
        /// The rank's last word.
        End = "end" { how: EndHow },
    }
}
