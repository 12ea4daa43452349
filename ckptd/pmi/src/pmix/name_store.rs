//! Values that ranks publish for others to look up (PMIx_Publish; MPI_Publish_name).

use super::abi::Status;
use super::values::PublishedValue;
use crate::GenerationName;
use std::collections::BTreeMap;
use understudy_numbers::Rank;

/// The process that has published a value.
pub type Owner = (GenerationName, Rank);

/// Published values of this node, by key.
#[derive(Default)]
pub struct NameStore(BTreeMap<String, (Owner, PublishedValue)>);

impl NameStore {
    /// Limit of values, so that a process which publishes without end cannot exhaust memory.
    const MAX_VALUES: usize = 10_000;

    pub fn publish(&mut self, owner: &Owner, values: Vec<(String, PublishedValue)>) -> Status {
        if values.iter().any(|(key, _)| self.0.contains_key(key)) {
            return Status::DUPLICATE_KEY;
        }
        if self.0.len() + values.len() > NameStore::MAX_VALUES {
            return Status::ERROR;
        }
        let owned = values
            .into_iter()
            .map(|(key, value)| (key, (owner.clone(), value)));
        self.0.extend(owned);
        Status::SUCCESS
    }

    /// Returns the keys that are published, with owner and value.
    pub fn lookup<'a>(
        &'a self,
        keys: &'a [String],
    ) -> impl Iterator<Item = (&'a String, &'a Owner, &'a PublishedValue)> {
        let found = keys.iter().filter_map(|key| self.0.get_key_value(key));
        found.map(|(key, (owner, value))| (key, owner, value))
    }

    /// Removes the owner's values with these keys, or all if no key is given.
    pub fn unpublish(&mut self, owner: &Owner, keys: &[String]) {
        let is_meant = |key: &String| keys.is_empty() || keys.contains(key);
        self.0
            .retain(|key, (publisher, _)| publisher != owner || !is_meant(key));
    }

    pub fn end(&mut self, generation: &GenerationName) {
        self.0.retain(|_, ((name, _), _)| name != generation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_published_is_found_until_it_is_taken_back() {
        let owner = |number, rank| (GenerationName::new("job", number).unwrap(), Rank(rank));
        let keys = |keys: &[&str]| keys.iter().map(|&key| key.to_owned()).collect::<Vec<_>>();
        let one = |key: &str| vec![(key.to_owned(), PublishedValue::Number(1))];
        let mut store = NameStore::default();
        assert_eq!(store.publish(&owner(0, 0), one("a")), Status::SUCCESS);
        assert_eq!(store.publish(&owner(0, 1), one("a")), Status::DUPLICATE_KEY);
        assert_eq!(store.publish(&owner(1, 0), one("b")), Status::SUCCESS);
        let found = |store: &NameStore| {
            store
                .lookup(&keys(&["a", "b", "c"]))
                .map(|(key, ..)| key.clone())
                .collect::<String>()
        };
        assert_eq!(found(&store), "ab");
        store.unpublish(&owner(0, 1), &[]);
        store.unpublish(&owner(0, 0), &keys(&["b"]));
        assert_eq!(found(&store), "ab");
        store.unpublish(&owner(0, 0), &keys(&["a"]));
        assert_eq!(found(&store), "b");
        store.end(&owner(1, 0).0);
        assert_eq!(found(&store), "");
    }
}
