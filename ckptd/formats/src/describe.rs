//! Values with named fields, so that tools can print records as JSON.
//!
//! The ranks' library is built without serde; the tools convert a [`Value`] with serde.

use std::fmt;
use understudy_numbers::{Epoch, ProcessNumber, Spare, Worker};

/// Tree of names and plain values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Null,
    Bool(bool),
    /// An integer; no type of a record exceeds its range.
    Integer(i128),
    /// UTF-8 text.
    Text(String),
    /// Values in order.
    List(Vec<Value>),
    /// Fields by name, in order.
    Map(Vec<(&'static str, Value)>),
}

/// Type that can be converted to a [`Value`].
pub trait Describe {
    fn describe(&self) -> Value;
}

impl Value {
    /// Converts a value by its `Display` implementation.
    pub fn text(value: impl fmt::Display) -> Value {
        Value::Text(value.to_string())
    }

    /// Creates a map with one field.
    pub fn field(name: &'static str, value: &impl Describe) -> Value {
        Value::Map(vec![(name, value.describe())])
    }

    /// Returns the fields of a map; other values have none.
    pub fn into_fields(self) -> Vec<(&'static str, Value)> {
        match self {
            Value::Map(fields) => fields,
            _ => Vec::new(),
        }
    }
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Describe for $type {
            fn describe(&self) -> Value {
                Value::Integer((*self).into())
            }
        }
    )*};
}
integers!(u32, u64, i32);

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Describe for $type {
            fn describe(&self) -> Value {
                self.0.describe()
            }
        }
    )*};
}
numbers!(Worker, ProcessNumber, Spare, Epoch);

impl Describe for bool {
    fn describe(&self) -> Value {
        Value::Bool(*self)
    }
}

impl Describe for String {
    fn describe(&self) -> Value {
        Value::Text(self.clone())
    }
}

impl<T: Describe> Describe for Option<T> {
    fn describe(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::describe)
    }
}

impl<T: Describe> Describe for [T] {
    fn describe(&self) -> Value {
        Value::List(self.iter().map(T::describe).collect())
    }
}

impl<T: Describe> Describe for Vec<T> {
    fn describe(&self) -> Value {
        self.as_slice().describe()
    }
}

impl<T: Describe, const N: usize> Describe for [T; N] {
    fn describe(&self) -> Value {
        self.as_slice().describe()
    }
}

macro_rules! tuples {
    ($($($part:ident)+;)*) => {$(
        impl<$($part: Describe),+> Describe for ($($part,)+) {
            #[allow(non_snake_case)]
            fn describe(&self) -> Value {
                let ($($part,)+) = self;
                Value::List(vec![$($part.describe()),+])
            }
        }
    )*};
}
tuples! {
    A B;
    A B C D E F;
}

/// Defines a structure and implements [`Describe`] for it.
macro_rules! described {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)*
    }) => {
        $(#[$meta])*
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl $crate::describe::Describe for $name {
            fn describe(&self) -> $crate::describe::Value {
                $crate::describe::Value::Map(vec![
                    $((stringify!($field), self.$field.describe()),)*
                ])
            }
        }
    };
}
pub(crate) use described;
