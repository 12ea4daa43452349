//! Rows of the table and their lookup.

/// Handling of one kind of state in a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// The state is the one at the checkpoint.
    Restored,
    /// The value needs no treatment: it is equal in all processes of a job.
    Equal,
    /// No checkpoint is taken; the text is the reason and the remedy.
    Refused(&'static str),
    /// The program may see another value after a recovery; the text describes that value.
    Differs(&'static str),
}

/// Kind of state and its handling.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The kernel's name of the state, or its prefix followed by `*`.
    pub name: &'static str,
    /// Handling in a recovery.
    pub handling: Handling,
    /// Test that shows the handling; empty if there is none.
    ///
    /// The format is `file::function`, below `ffi-tests/tests`.
    pub test: &'static str,
}

impl Row {
    /// True if the row applies to state of this name.
    pub fn applies_to(&self, name: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == self.name,
        }
    }
}

/// Reason for a refusal of state without a row.
pub const UNKNOWN_KIND: &str = "this kind is unknown to understudy and could not be restored; \
                       let the program close it after use";

/// Returns the reason why state of this name is refused, if it is.
pub fn refusal(table: &[Row], name: &str) -> Option<&'static str> {
    match table
        .iter()
        .find(|row| row.applies_to(name))
        .map(|row| row.handling)
    {
        None => Some(UNKNOWN_KIND),
        Some(Handling::Refused(why)) => Some(why),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Handling, Row, refusal};

    #[test]
    fn the_first_row_that_fits_decides() {
        let row = |name, handling| Row {
            name,
            handling,
            test: "",
        };
        let table = [
            row("/dev/null", Handling::Restored),
            row("/dev/*", Handling::Refused("a device")),
        ];
        assert_eq!(refusal(&table, "/dev/null"), None);
        assert_eq!(refusal(&table, "/dev/null2"), Some("a device"));
    }
}
