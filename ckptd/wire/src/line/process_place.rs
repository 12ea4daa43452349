//! Value of the variable [`super::LINE_VARIABLE`].

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use understudy_numbers::{Guardian, ProcessNumber};

/// Number of a process, its guardian, and the job's directory on this node.
#[derive(Debug, PartialEq, Eq)]
pub struct ProcessPlace {
    pub number: ProcessNumber,
    pub guardian: Guardian,
    pub directory: PathBuf,
}

impl ProcessPlace {
    /// Parses the value of [`super::LINE_VARIABLE`].
    pub fn parse(text: &str) -> Option<ProcessPlace> {
        let mut fields = text.splitn(3, ',');
        Some(ProcessPlace {
            number: ProcessNumber(fields.next()?.parse().ok()?),
            guardian: Guardian(fields.next()?.parse().ok()?),
            directory: fields.next()?.into(),
        })
    }
}

/// True in the first process of a job's directory that calls the function for `subject`.
pub fn is_first_to_warn(directory: &Path, subject: &str) -> bool {
    let path = directory.join(format!("warned-{subject}"));
    let file = std::fs::File::create_new(path);
    !file.is_err_and(|error| error.kind() == ErrorKind::AlreadyExists)
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
