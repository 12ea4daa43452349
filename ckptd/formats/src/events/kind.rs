//! Kinds of records. Any change here requires a new [`super::VERSION`].

use super::tables::{AnnotationSaving, JournalCalls, Traffic};
use crate::describe::{Describe, Value, described};
use bincode::{Decode, Encode};
use std::fmt;
use understudy_numbers::{Epoch, ProcessNumber, Spare, Worker};

/// Entry of [`Kind::Config`]: the network of a job on several nodes.
pub const NETWORK: &str = "network";
/// Entry of [`Kind::Config`]: replicas of each worker at buddies, as a number or `xor:G`.
pub const COPIES: &str = "copies of each worker";
/// Entry of [`Kind::Config`]: `N of W`, where N workers have no replica in another domain.
pub const COPIES_IN_OWN_DOMAIN: &str = "copies in their own domain";

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

/// Result of the MPI call by which a rank has detected a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum ErrorClass {
    /// The call was abandoned, because a failure was announced while it waited.
    Abandoned,
    /// Error class of the MPI library, by its number.
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

/// Stages of a recovery, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum RecoveryStage {
    /// From the failure to the begin of the recovery on this rank.
    Detect,
    /// Threads of the program are stopped, and the MPI side is reset.
    Reset,
    /// Operations that were in flight are released.
    Drain,
    /// MPI is initialised again, together with all other processes.
    Initialise,
    /// All processes compute the same recovery plan.
    Agree,
    /// Replacements join the workers, and the checkpoint to resume from is selected.
    Replace,
    /// File changes are undone, and missing replicas are fetched.
    Fetch,
    /// Memory, libraries and threads are restored.
    Load,
    /// MPI objects are rebuilt.
    Rebuild,
    /// Lost replicas are made again.
    Reprotect,
    /// Requests are posted again, and the program resumes.
    Resume,
}

impl RecoveryStage {
    /// All stages in order.
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

/// End of a rank, as recorded by the rank itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum EndReason {
    Finalized,
    /// `exit` with this status without `MPI_Finalize`.
    Exited(i32),
    /// `MPI_Abort` with this code.
    Aborted(i32),
    /// Release of a spare that was never needed.
    Released,
}

impl Describe for EndReason {
    fn describe(&self) -> Value {
        match self {
            Self::Finalized => Value::text("finalized"),
            Self::Exited(status) => Value::field("exited", status),
            Self::Aborted(code) => Value::field("aborted", code),
            Self::Released => Value::text("released"),
        }
    }
}

impl fmt::Display for EndReason {
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
    /// Process `rank` that was chosen to replace a worker.
    #[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
    pub struct SpareChoice {
        pub worker: Worker,
        pub rank: ProcessNumber,
        /// True if ckptd has chosen the spare; false if the built-in rule has chosen it.
        pub by_daemon: bool,
    }
}

/// Defines the kinds with their names, and implements [`Describe`] for them.
///
/// The fields of a `flat` kind's value are described as fields of the kind itself.
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
            /// Names of all kinds.
            pub const NAMES: &[&str] = &[$($name),*];

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
        /// The rank has started. `job` distinguishes jobs that wrote to one directory.
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
        /// Settings in force, and what follows from them, such as [`NETWORK`].
        Config = "config" { settings: Vec<(String, String)> },
        /// A consistent cut was taken, after `candidates` cut points of the rank.
        ///
        /// `at_call` equals `candidates`.
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
        /// Annotations of the program (`understudy.h`) have elided pages from a capture.
        Elided = "left_out" {
            epoch: Epoch,
            /// Pages that would have been in the capture.
            pages: u64,
            /// Annotations that have saved the most.
            marks: Vec<AnnotationSaving>,
        },
        /// The capture was sent to the buddy.
        Ship = "ship" {
            epoch: Epoch,
            to: ProcessNumber,
            bytes: u64,
            /// Pages that were not sent, because the buddy has equal pages.
            alike: u64,
            ns: u64,
        },
        /// The capture of another worker was received.
        Received = "received" {
            epoch: Epoch,
            from: ProcessNumber,
            bytes: u64,
            ns: u64,
        },
        /// The epoch was committed, `ns` after its cut.
        Commit = "commit" { epoch: Epoch, ns: u64 },
        /// The rank is about to kill itself (fault injection).
        Kill = "kill" { signal: i32 },
        /// Counts of passed fault points and of the program's MPI calls (`UNDERSTUDY_FAULT=count`).
        Passed = "passed" {
            calls: u64,
            points: Vec<(String, u64)>,
        },
        /// A process beside this rank has replayed a worker's set-up phase.
        TrialReplay = "rehearsal" {
            worker: Worker,
            /// Bytes of the journal.
            journal: u64,
            /// Compared pages.
            pages: u64,
            /// Pages that differ from the worker's.
            different: u64,
            /// Mappings with pages that differ, and the number of such pages in each.
            places: Vec<String>,
            /// Reason why the replay did not finish.
            failure: Option<String>,
            /// Duration of the replay.
            replay_ns: u64,
            /// Duration of the phase.
            phase_ns: u64,
        },
        /// Pages that can be rebuilt were elided from the replica of a worker.
        ReplicaReduced = "thinned" {
            worker: Worker,
            /// Elided pages.
            pages: u64,
            /// Remaining pages.
            left: u64,
            /// Bytes of the journal that is stored instead of the elided pages.
            journal: u64,
        },
        /// The rank has elided rebuildable pages from the replica of its own memory.
        OwnReplicaReduced = "own_thinned" {
            /// Elided pages.
            pages: u64,
            /// Remaining pages.
            left: u64,
        },
        /// Decision about the source of static data in a recovery.
        StaticData = "static_data" {
            worker: Worker,
            /// `replay` or `image`.
            way: String,
            reason: String,
        },
        /// Static data of the worker that this process runs have been rebuilt.
        Rebuilt = "rebuilt" {
            worker: Worker,
            pages: u64,
            /// Duration of the rebuild.
            ns: u64,
        },
        /// Functions of the program have recomputed memory that replicas omit.
        Recomputed = "recomputed" { regions: u64, bytes: u64, ns: u64 },
        /// Functions of the program have undone steps in a survivor.
        Reversed = "reversed" {
            /// Pages whose restored content equals that of the checkpoint.
            pages: u64,
            /// Pages that differed from the checkpoint and were fetched from a replica.
            wrong: u64,
            /// Complete steps.
            steps: u64,
            ns: u64,
        },
        /// The rank has detected failures.
        FailureDetected = "failure_detected" {
            recovery: u32,
            failed: Vec<ProcessNumber>,
            by: ErrorClass,
        },
        /// A process has died; recorded by every process that continues.
        Death = "death" {
            recovery: u32,
            rank: ProcessNumber,
            /// Worker that the process ran.
            worker: Worker,
            /// Signal, with the address if the process has recorded it; `unknown` if not observed.
            cause: String,
        },
        /// Spares were chosen for failed workers; recorded by the process that has queried ckptd.
        SparesChosen = "spares_chosen" {
            recovery: u32,
            choices: Vec<SpareChoice>,
            /// Reason why the built-in rule was used; `None` if it was not used.
            reason: Option<String>,
        },
        /// A stage of a recovery has ended after `ns` on this rank.
        Stage = "stage" {
            recovery: u32,
            stage: RecoveryStage,
            ns: u64,
        },
        /// This process, formerly the spare `from`, continues as the worker `as_worker`.
        ///
        /// A process that was started after the failure counts as a spare, too.
        Takeover = "takeover" {
            recovery: u32,
            from: Spare,
            as_worker: Worker,
        },
        /// The rank has resumed the program at `epoch`, `total_ns` after the failure.
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
        /// Traffic counts, which earlier builds with this [`super::VERSION`] have written.
        ///
        /// Decoded but not reported.
        Traffic = "traffic" flat { traffic: Traffic },
        /// Calls of a set-up log that has ended or was discarded.
        JournalCalls = "journal_calls" flat { calls: JournalCalls },
        /// The job is not protected, or not protected any more.
        Refused = "refused" { reason: String },
        /// No worker can continue: the job ends with this status.
        Lost = "lost" { reason: String, status: i32 },
        /// Last record of the rank.
        End = "end" { how: EndReason },
    }
}
