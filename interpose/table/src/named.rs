//! Enums of words of the tables.

/// Defines an enum whose variants stand in the table by their names.
macro_rules! named {
    ($(#[$doc:meta])* $enum:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $enum { $($(#[$vdoc])* $variant,)+ }

        impl $enum {
            /// Every variant, in order.
            pub const ALL: &'static [$enum] = &[$($enum::$variant,)+];

            /// The name that the table uses.
            pub const fn name(self) -> &'static str {
                match self { $($enum::$variant => $text,)+ }
            }

            /// The variant of that name.
            pub fn from_name(name: &str) -> Option<$enum> {
                match name { $($text => Some($enum::$variant),)+ _ => None }
            }
        }
    };
}

pub(crate) use named;
