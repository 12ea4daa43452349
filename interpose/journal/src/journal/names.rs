//! Names of functions as written in C++ source (Itanium C++ ABI, section 5.1).
//!
//! Names of C and Fortran functions are not changed.

use cpp_demangle::{DemangleOptions, Symbol};
use std::borrow::Cow;

/// Returns `Solver::run` for `_ZN6Solver3runEi`.
pub fn readable(symbol: &str) -> Cow<'_, str> {
    let options = DemangleOptions::new().no_params().no_return_type();
    written(symbol, &options).map_or(Cow::Borrowed(symbol), Cow::Owned)
}

/// Parts of a name that are ignored: unnamed namespaces and spaces.
///
/// An unnamed namespace cannot be written in the source.
const UNWRITTEN: [&str; 2] = ["(anonymous namespace)::", " "];

/// True if `wanted` denotes this symbol: `Solver::run` and `Solver::run(int)`.
pub fn means(wanted: &str, symbol: &str) -> bool {
    // A part of a function that the compiler has moved elsewhere.
    if symbol.contains('.') {
        return false;
    }
    let is_wanted = |text: String| {
        let written = |text: &str| {
            UNWRITTEN
                .iter()
                .fold(text.to_owned(), |text, it| text.replace(it, ""))
        };
        written(&text) == written(wanted)
    };
    let whole = DemangleOptions::new().no_return_type();
    [whole, whole.no_params()]
        .iter()
        .any(|options| written(symbol, options).is_some_and(&is_wanted))
}

fn written(symbol: &str, options: &DemangleOptions) -> Option<String> {
    // The demangler also accepts names of types, which are ordinary words.
    if !symbol.starts_with("_Z") {
        return None;
    }
    Symbol::new(symbol)
        .ok()?
        .demangle_with_options(options)
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_in_the_source() {
        assert_eq!(readable("_ZN6Solver3runEi"), "Solver::run");
        assert_eq!(readable("_Z4stepIdEvRKT_"), "step<double>");
        assert_eq!(readable("main"), "main");
        assert_eq!(readable("i"), "i");
        assert_eq!(readable("_Zmore"), "_Zmore");
    }

    #[test]
    fn a_function_is_meant_with_its_arguments_or_without() {
        for wanted in ["Solver::run", "Solver::run(int)", "Solver::run( int )"] {
            assert!(means(wanted, "_ZN6Solver3runEi"), "{wanted}");
        }
        for wanted in ["run", "Solver::run(double)", "Solver"] {
            assert!(!means(wanted, "_ZN6Solver3runEi"), "{wanted}");
        }
        assert!(means("step", "_ZN12_GLOBAL__N_14stepEi"));
        assert!(!means("step", "_ZN12_GLOBAL__N_14stepEi.cold"));
    }
}
