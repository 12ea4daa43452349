//! The name of a generation.

use crate::Error;
use bincode::{Decode, Encode};
use std::borrow::Borrow;
use std::fmt;

/// What no other generation of any job on these nodes is called: MPI libraries name shared memory
/// after it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub struct Name(String);

impl Name {
    /// Longest name of a job, in bytes: MPICH takes at most 256 for all of a key space's name.
    pub const LONGEST_JOB: usize = 64;

    /// Generation `number` of a job. `job` has letters, digits, '-', '_' and '.'.
    ///
    /// # Errors
    /// [`Error::BadName`].
    pub fn new(job: &str, number: u32) -> Result<Name, Error> {
        let is_good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        check_name("job", job, Name::LONGEST_JOB, is_good)?;
        Ok(Name(format!("{job}.{number}")))
    }

    /// The namespace of processes that a rank of this one has asked for, on this host of the job's;
    /// a host does not give numbers twice.
    pub fn child(&self, host: usize, number: u32) -> Name {
        Name(format!("{self}.{host}-{number}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A name that may stand in PMIx's and PMI's lists.
pub fn check_name(
    what: &'static str,
    name: &str,
    most: usize,
    is_good: impl Fn(char) -> bool,
) -> Result<(), Error> {
    let leads_away = name.starts_with('.');
    if name.is_empty() || name.len() > most || leads_away || !name.chars().all(is_good) {
        let name = name.chars().take(most).collect();
        return Err(Error::BadName { what, name, most });
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
                matches!(Name::new(job, 0), Err(Error::BadName { .. })),
                "{job}"
            );
        }
        assert_eq!(Name::new("job-1", 7).unwrap().as_str(), "job-1.7");
    }
}
