//! Names of functions as written in C++ source (Itanium C++ ABI, section 5.1).
//!
//! Names of C and Fortran functions are not changed.

use cpp_demangle::{DemangleOptions, Symbol};
use std::borrow::Cow;

/// Returns `Solver::run` for `_ZN6Solver3runEi`.
pub fn readable(symbol: &str) -> Cow<'_, str> {
    let options = DemangleOptions::new().no_params().no_return_type();
    demangled(symbol, &options).map_or(Cow::Borrowed(symbol), Cow::Owned)
}

/// Parts of a name that are ignored: unnamed namespaces and spaces.
///
/// An unnamed namespace cannot be written in the source.
const IGNORED_PARTS: [&str; 2] = ["(anonymous namespace)::", " "];

/// True if `wanted` denotes this symbol, with or without the types of arguments.
///
/// For example, `Solver::run` and `Solver::run(int)` denote `_ZN6Solver3runEi`.
pub fn denotes(wanted: &str, symbol: &str) -> bool {
    // A symbol with a dot is that of a part that the compiler has split off from a function, such
    // as `.cold`.
    if symbol.contains('.') {
        return false;
    }
    let is_wanted = |text: String| {
        let normalised = |text: &str| {
            IGNORED_PARTS
                .iter()
                .fold(text.to_owned(), |text, part| text.replace(part, ""))
        };
        normalised(&text) == normalised(wanted)
    };
    let whole = DemangleOptions::new().no_return_type();
    [whole, whole.no_params()]
        .iter()
        .any(|options| demangled(symbol, options).is_some_and(&is_wanted))
}

fn demangled(symbol: &str, options: &DemangleOptions) -> Option<String> {
    // The demangler also accepts mangled types: the C function `i` would become `int`.
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
    fn a_name_denotes_a_function_with_or_without_arguments() {
        for wanted in ["Solver::run", "Solver::run(int)", "Solver::run( int )"] {
            assert!(denotes(wanted, "_ZN6Solver3runEi"), "{wanted}");
        }
        for wanted in ["run", "Solver::run(double)", "Solver"] {
            assert!(!denotes(wanted, "_ZN6Solver3runEi"), "{wanted}");
        }
        assert!(denotes("step", "_ZN12_GLOBAL__N_14stepEi"));
        assert!(!denotes("step", "_ZN12_GLOBAL__N_14stepEi.cold"));
    }
}
