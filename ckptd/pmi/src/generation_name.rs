//! The name of a generation.

use crate::Error;
use bincode::{Decode, Encode};
use std::borrow::Borrow;
use std::fmt;

/// Name of a generation, unique among the generations of all jobs on these nodes.
///
/// MPI libraries use it in the names of shared memory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub struct GenerationName(String);

impl GenerationName {
    /// Longest name of a job, in bytes.
    ///
    /// MPICH limits the name of a key space to 256 bytes.
    pub const MAX_JOB_NAME_BYTES: usize = 64;

    /// Returns the name of a job's generation `number`.
    ///
    /// `job` may contain letters, digits, '-', '_' and '.'.
    ///
    /// # Errors
    /// [`Error::BadName`].
    pub fn new(job: &str, number: u32) -> Result<GenerationName, Error> {
        let is_good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        check_name("job", job, GenerationName::MAX_JOB_NAME_BYTES, is_good)?;
        Ok(GenerationName(format!("{job}.{number}")))
    }

    /// Returns the name of a namespace that a rank of this generation has spawned.
    ///
    /// `host` is the index of a host of the job, and `number` is unique on the host.
    pub fn child(&self, host: usize, number: u32) -> GenerationName {
        GenerationName(format!("{self}.{host}-{number}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for GenerationName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GenerationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Checks that a name is valid in file names and lists of PMIx and PMI.
pub fn check_name(
    what: &'static str,
    name: &str,
    max_bytes: usize,
    is_good: impl Fn(char) -> bool,
) -> Result<(), Error> {
    let is_hidden_or_parent = name.starts_with('.');
    if name.is_empty()
        || name.len() > max_bytes
        || is_hidden_or_parent
        || !name.chars().all(is_good)
    {
        let name = name.chars().take(max_bytes).collect();
        return Err(Error::BadName {
            what,
            name,
            most: max_bytes,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_break_lists_or_paths_are_refused() {
        for job in ["", "a b", "a/b", "a,b", "..", "a\n", "ü", &"x".repeat(65)] {
            assert!(
                matches!(GenerationName::new(job, 0), Err(Error::BadName { .. })),
                "{job}"
            );
        }
        assert_eq!(GenerationName::new("job-1", 7).unwrap().as_str(), "job-1.7");
    }
}
