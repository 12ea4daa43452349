//! Value of the variable [`super::LINE`].

use std::path::PathBuf;
use understudy_numbers::{Guardian, ProcessNumber};

/// Number of a process, its guardian, and the job's directory on this node.
#[derive(Debug, PartialEq, Eq)]
pub struct ProcessPlace {
    pub number: ProcessNumber,
    pub guardian: Guardian,
    pub directory: PathBuf,
}

impl ProcessPlace {
    /// Parses the value of [`super::LINE`].
    pub fn parse(text: &str) -> Option<ProcessPlace> {
        let mut parts = text.splitn(3, ',');
        let mut part = || parts.next();
        Some(ProcessPlace {
            number: ProcessNumber(part()?.parse().ok()?),
            guardian: Guardian(part()?.parse().ok()?),
            directory: part()?.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_may_contain_commas() {
        let place = ProcessPlace::parse("5,2,/dev/shm/a,b").expect("well-formed");
        assert_eq!((place.number.0, place.guardian.0), (5, 2));
        assert_eq!(place.directory, PathBuf::from("/dev/shm/a,b"));
        assert_eq!(ProcessPlace::parse("5,2"), None);
    }
}
