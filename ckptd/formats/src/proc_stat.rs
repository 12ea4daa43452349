//! Fields of `/proc/PID/stat` (proc_pid_stat(5)).

/// Index of the state of a process, a letter.
pub const STATE: usize = 0;
/// Index of the process id of the parent.
pub const PARENT: usize = 1;
/// Index of the time in user mode, of all threads, in clock ticks.
pub const USER_TIME: usize = 11;
/// Index of the time in the kernel, of all threads, in clock ticks.
pub const SYSTEM_TIME: usize = 12;
/// Index of the start time of the process, in clock ticks since boot.
pub const START: usize = 19;

/// All fields of a process at one time.
#[derive(Debug)]
pub struct Stat(String);

impl Stat {
    /// Reads the fields; `None` if the process does not exist.
    pub fn read(pid: u32) -> Option<Stat> {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .ok()
            .map(Stat)
    }

    /// Returns the command name: the first 15 bytes of the program's file name.
    pub fn command_name(&self) -> Option<&str> {
        let (before, _) = self.0.rsplit_once(')')?;
        Some(before.split_once('(')?.1)
    }

    /// Returns a field.
    ///
    /// `index` counts the fields after the command name from 0. The line is split at its last
    /// parenthesis, because command names may contain blanks and parentheses.
    pub fn field(&self, index: usize) -> Option<&str> {
        let (_, fields) = self.0.rsplit_once(')')?;
        fields.split_whitespace().nth(index)
    }

    /// Returns a numeric field.
    pub fn number<T: std::str::FromStr>(&self, index: usize) -> Option<T> {
        self.field(index)?.parse().ok()
    }
}

/// Returns a field of a process ([`Stat::field`]); `None` if the process does not exist.
pub fn field(pid: u32, index: usize) -> Option<String> {
    Stat::read(pid)?.field(index).map(str::to_owned)
}

/// Returns a numeric field.
pub fn number<T: std::str::FromStr>(pid: u32, index: usize) -> Option<T> {
    field(pid, index)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_this_process_are_read() {
        let own = std::process::id();
        assert_eq!(
            number(own, PARENT),
            Some(std::os::unix::process::parent_id())
        );
        assert!(field(own, STATE).is_some_and(|state| state == "R" || state == "S"));
        assert!(number::<u64>(own, START).is_some_and(|start| start > 0));
        assert_eq!(field(u32::MAX, STATE), None);
    }
}
