//! Enums of words in the tables.

/// Defines an enum with a name in the tables for each variant.
macro_rules! named {
    ($(#[$doc:meta])* $enum:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $enum { $($(#[$vdoc])* $variant,)+ }

        impl $enum {
            /// All variants, in order.
            pub const ALL: &'static [$enum] = &[$($enum::$variant,)+];

            /// Returns the variant's name in the tables.
            pub const fn name(self) -> &'static str {
                match self { $($enum::$variant => $text,)+ }
            }

            /// Returns the variant of this name.
            pub fn from_name(name: &str) -> Option<$enum> {
                match name { $($text => Some($enum::$variant),)+ _ => None }
            }
        }
    };
}

pub(crate) use named;
