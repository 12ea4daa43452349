//! Values that the program has written to control variables. Plain data.

/// Value that was written to a variable.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub(super) struct Write {
    pub(super) name: Vec<u8>,
    pub(super) object: u64,
    pub(super) value: Vec<u8>,
}

/// Last values of the variables that the program has written.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct WrittenValues {
    /// Number of writes that have changed an unbound variable.
    pub(super) changes: u64,
    /// Last write to each variable, in the order of the writes.
    pub(super) last: Vec<Write>,
}

impl WrittenValues {
    pub const NONE: WrittenValues = WrittenValues {
        changes: 0,
        last: Vec::new(),
    };

    /// Records a write, and removes an earlier one to the same variable.
    pub(super) fn record(&mut self, write: Write) {
        self.changes += u64::from(write.object == 0 && !self.last.contains(&write));
        let is_other = |other: &Write| (&other.name, other.object) != (&write.name, write.object);
        self.last.retain(is_other);
        self.last.push(write);
    }

    /// Returns the name of the unbound variable that was written last.
    pub(super) fn last_name(&self) -> &[u8] {
        let unbound = self.last.iter().rfind(|write| write.object == 0);
        unbound.map_or(&[], |write| &write.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(written: &mut WrittenValues, name: &[u8], object: u64, value: u8) {
        written.record(Write {
            name: name.to_vec(),
            object,
            value: vec![value],
        });
    }

    #[test]
    fn last_values_are_kept_in_their_order() {
        let mut written = WrittenValues::NONE;
        for (name, value) in [(b"a", 1), (b"b", 2), (b"a", 3)] {
            record(&mut written, name, 0, value);
        }
        record(&mut written, b"a", 7, 4);
        let values: Vec<u8> = written.last.iter().map(|write| write.value[0]).collect();
        assert_eq!(values, [2, 3, 4]);
        assert_eq!(written.last_name(), b"a");
    }

    #[test]
    fn changes_are_those_of_other_values_without_an_object() {
        let mut written = WrittenValues::NONE;
        for value in [1, 1, 2, 2, 1] {
            record(&mut written, b"a", 0, value);
        }
        assert_eq!(written.changes, 3);
        record(&mut written, b"a", 7, 1);
        assert_eq!(written.changes, 3);
    }
}
