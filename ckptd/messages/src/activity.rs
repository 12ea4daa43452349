//! Activity of a process, which its guardian reports.

use bincode::{Decode, Encode};
use std::fmt;
use std::time::Duration;
use understudy_numbers::ProcessNumber;

/// Place of a call in the program.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Encode, Decode)]
pub struct CallPlace {
    /// Name of the procedure; empty if it is unknown.
    pub procedure: String,
    /// File and offset of the return address, as `solver+0x4f2c`; empty if they are unknown.
    pub address: String,
}

/// Activity of a process, or the reason why it is inactive.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Encode, Decode)]
pub enum Activity {
    /// A signal has stopped the process.
    Stopped,
    /// A debugger has stopped the process.
    Traced,
    /// The process sleeps without interruption in this function of the kernel.
    Blocked { kernel_function: String },
    /// The process is in a call of MPI, which has not returned.
    InCall(CallPlace),
    /// The process uses no processor outside of MPI, after this call.
    Idle {
        after: CallPlace,
        kernel_function: String,
    },
    /// The process uses a processor outside of MPI, after this call.
    Computing { after: CallPlace },
    /// The process is stopped or waits for a processor most of the time.
    Crawling { after: CallPlace },
}

/// A call on the stack of the program.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct StackFrame {
    /// Path of the program or library.
    pub path: String,
    /// Offset of the return address, for addr2line(1).
    pub offset: u64,
}

/// Answer of a guardian to [`crate::Hello::ReadActivities`], for one process.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct ProcessActivity {
    pub number: ProcessNumber,
    pub activity: Activity,
    /// Time without any movement.
    pub inactive_for: Duration,
    /// Innermost calls of the program, as far as they are known.
    pub stack: Vec<StackFrame>,
}

impl fmt::Display for CallPlace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let procedure = Some(self.procedure.as_str()).filter(|name| !name.is_empty());
        out.write_str(procedure.unwrap_or("an MPI call"))?;
        match self.address.as_str() {
            "" => Ok(()),
            address => write!(out, " at {address}"),
        }
    }
}

/// Writes the state in words that follow "rank N is".
impl fmt::Display for Activity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Activity::Stopped => out.write_str("stopped (SIGSTOP)"),
            Activity::Traced => out.write_str("stopped by a debugger"),
            Activity::Blocked { kernel_function } => {
                write!(out, "blocked in the kernel{}", inside(kernel_function))
            }
            Activity::InCall(place) => write!(out, "in {place}"),
            Activity::Idle {
                after,
                kernel_function,
            } => {
                let inside = inside(kernel_function);
                write!(out, "idle outside of MPI{inside}, after {after}")
            }
            Activity::Computing { after } => write!(out, "computing, after {after}"),
            Activity::Crawling { after } => {
                write!(
                    out,
                    "crawling (less than 20 % of a processor), after {after}"
                )
            }
        }
    }
}

/// Returns a kernel function in parentheses; the kernel writes "0" for an unknown function.
fn inside(kernel_function: &str) -> String {
    match kernel_function {
        "" | "0" => String::new(),
        known => format!(" ({known})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_written_in_words() {
        let known = CallPlace {
            procedure: "MPI_Barrier".into(),
            address: "solver+0x4f2c".into(),
        };
        let kernel_function = || "nfs_wait_bit_killable".to_owned();
        for (state, words) in [
            (Activity::Stopped, "stopped (SIGSTOP)"),
            (
                Activity::Blocked {
                    kernel_function: kernel_function(),
                },
                "blocked in the kernel (nfs_wait_bit_killable)",
            ),
            (
                Activity::InCall(known.clone()),
                "in MPI_Barrier at solver+0x4f2c",
            ),
            (Activity::InCall(CallPlace::default()), "in an MPI call"),
            (
                Activity::Idle {
                    after: known,
                    kernel_function: "0".into(),
                },
                "idle outside of MPI, after MPI_Barrier at solver+0x4f2c",
            ),
        ] {
            assert_eq!(state.to_string(), words);
        }
    }
}
