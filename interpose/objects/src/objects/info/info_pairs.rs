//! Contents of info objects. Plain data.

/// Contents of an info object. C strings need not be UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Info {
    /// Keys and values, in the order in which the keys were added.
    pub pairs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Info {
    /// Adds a pair, or replaces the value of an existing key.
    pub fn set(&mut self, key: &[u8], value: &[u8]) {
        match self.pairs.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value.to_vec(),
            None => self.pairs.push((key.to_vec(), value.to_vec())),
        }
    }

    pub fn delete(&mut self, key: &[u8]) {
        self.pairs.retain(|(known, _)| known != key);
    }
}

#[cfg(test)]
mod tests {
    use super::Info;

    #[test]
    fn a_new_value_leaves_the_key_in_its_place() {
        let mut info = Info::default();
        info.set(b"a", b"1");
        info.set(b"b", b"2");
        info.set(b"a", b"3");
        info.delete(b"c");
        assert_eq!(
            info.pairs,
            [
                (b"a".to_vec(), b"3".to_vec()),
                (b"b".to_vec(), b"2".to_vec())
            ]
        );
        info.delete(b"a");
        assert_eq!(info.pairs, [(b"b".to_vec(), b"2".to_vec())]);
    }
}
