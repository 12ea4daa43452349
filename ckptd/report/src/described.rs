//! Values of the ranks' records as JSON.

use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::BTreeMap;
use std::fmt::Display;
use understudy_formats::describe::{Describe, Value};

/// Serializes a value that describes its own fields.
pub fn described<S: Serializer>(value: &impl Describe, serializer: S) -> Result<S::Ok, S::Error> {
    Tree(&value.describe()).serialize(serializer)
}

/// Serializes a map whose keys are numbers of workers or processes.
pub fn by_number<K: Display, V: Serialize, S: Serializer>(
    map: &BTreeMap<K, V>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(
        map.iter()
            .map(|(number, value)| (number.to_string(), value)),
    )
}

struct Tree<'a>(&'a Value);

impl Serialize for Tree<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => serializer.serialize_none(),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Integer(value) => serializer.serialize_i128(*value),
            Value::Text(text) => serializer.serialize_str(text),
            Value::List(values) => serializer.collect_seq(values.iter().map(Tree)),
            Value::Map(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (name, value) in fields {
                    map.serialize_entry(name, &Tree(value))?;
                }
                map.end()
            }
        }
    }
}
