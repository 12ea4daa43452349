//! Samples of a process: its state in the kernel, and its last MPI call.

use super::process_memory::{CallAddressesOfPage, ProcessMemory};
use super::stack_walk::walk;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;
use understudy_formats::proc_maps::MappedFiles;
use understudy_formats::proc_stat;
use understudy_protocol::{InactivityKind, ProcessSample, ProcessState};
use understudy_wire::line::{Activity, CallPlace, StackFrame};

/// Prefix of the names of this product's libraries.
const OWN_LIBRARY: &str = "libunderstudy";
/// Milliseconds of a clock tick (USER_HZ, which is 100 on x86-64).
const TICK_MS: u64 = 10;

/// A process whose state is sampled.
pub struct SampledProcess {
    pid: u32,
    /// `None` if the memory of the process cannot be accessed.
    memory: Option<ProcessMemory>,
}

impl SampledProcess {
    /// Opens the process that has this page; `None` until it has set its addresses.
    pub fn open(pid: u32, page: impl AsFd) -> Option<SampledProcess> {
        let addresses = CallAddressesOfPage::read(page)?;
        let memory = ProcessMemory::open(pid, addresses);
        if let Err(error) = &memory {
            log::info!("the calls of process {pid} are not watched: {error}");
        }
        let memory = memory.ok();
        Some(SampledProcess { pid, memory })
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the state of the process; `None` if it does not exist any more.
    pub fn sample(&self) -> Option<ProcessSample> {
        let stat = proc_stat::Stat::read(self.pid)?;
        let ticks = stat.number::<u64>(proc_stat::USER_TIME)?
            + stat.number::<u64>(proc_stat::SYSTEM_TIME)?;
        let state = match stat.field(proc_stat::STATE)? {
            "T" => ProcessState::Stopped,
            "t" => ProcessState::Traced,
            "D" => ProcessState::Blocked,
            "Z" | "X" => return None,
            "R" => ProcessState::Running,
            _ => ProcessState::Sleeping,
        };
        Some(ProcessSample {
            state,
            processor_time: Duration::from_millis(ticks * TICK_MS),
            bytes: self.bytes_of_files(),
            calls: self.memory.as_ref().and_then(|memory| memory.sample().ok()),
        })
    }

    /// Returns the number of bytes that the process has read and written (proc_pid_io(5)).
    fn bytes_of_files(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/io", self.pid)).unwrap_or_default();
        let numbers = text.lines().filter_map(|line| {
            let (name, number) = line.split_once(": ")?;
            ["rchar", "wchar"].contains(&name).then_some(number)
        });
        numbers
            .filter_map(|number| number.parse::<u64>().ok())
            .sum()
    }

    /// Returns the present activity; `None` if the process does not exist any more.
    pub fn activity(&self) -> Option<Activity> {
        let stat = proc_stat::Stat::read(self.pid)?;
        let is_in_call = self.memory.as_ref().is_some_and(ProcessMemory::is_in_call);
        Some(match stat.field(proc_stat::STATE)? {
            "T" => Activity::Stopped,
            "t" => Activity::Traced,
            "D" => self.describe(InactivityKind::Blocked),
            _ if is_in_call => Activity::InCall(self.place()),
            "S" => self.describe(InactivityKind::Idle),
            _ => Activity::Computing {
                after: self.place(),
            },
        })
    }

    /// Describes the inactive process.
    pub fn describe(&self, kind: InactivityKind) -> Activity {
        let kernel_function = || {
            let name = std::fs::read_to_string(format!("/proc/{}/wchan", self.pid));
            name.unwrap_or_default()
        };
        match kind {
            InactivityKind::Stopped => Activity::Stopped,
            InactivityKind::Traced => Activity::Traced,
            InactivityKind::Blocked => Activity::Blocked {
                kernel_function: kernel_function(),
            },
            InactivityKind::InCall => Activity::InCall(self.place()),
            InactivityKind::Crawling => Activity::Crawling {
                after: self.place(),
            },
            InactivityKind::Idle => Activity::Idle {
                after: self.place(),
                kernel_function: kernel_function(),
            },
        }
    }

    /// Returns the frames of the program's stack, the innermost first.
    ///
    /// May block if pages of a program file must be read, and the file system does not answer.
    pub fn stack(&self) -> Vec<StackFrame> {
        let memory = self.memory.as_ref();
        memory.map_or_else(Vec::new, |memory| walk(memory, self.pid))
    }

    /// Returns the place of the current or last call.
    fn place(&self) -> CallPlace {
        let Some(memory) = &self.memory else {
            return CallPlace::default();
        };
        let files = MappedFiles::read(self.pid);
        let address = |address: io::Result<u64>| memory.place(&files, address.ok()?);
        let own = address(memory.return_address());
        let address = own
            .filter(|name| !name.starts_with(OWN_LIBRARY))
            // The preload library has made the call for the program.
            .or_else(|| address(memory.callers_return_address()));
        CallPlace {
            procedure: memory.procedure().unwrap_or_default(),
            address: address.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_sampled() {
        let own = SampledProcess {
            pid: std::process::id(),
            memory: None,
        };
        let sample = own.sample().expect("a living process");
        // The state is that of the main thread.
        let is_normal = matches!(sample.state, ProcessState::Running | ProcessState::Sleeping);
        assert!(is_normal && sample.calls.is_none(), "{sample:?}");
        assert!(sample.bytes > 0);
    }
}
