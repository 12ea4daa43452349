//! Names of functions as they are written in C++ (Itanium C++ ABI, section 5.1); those of C and
//! Fortran stay what they are.

use cpp_demangle::{DemangleOptions, Symbol};
use std::borrow::Cow;

/// `Solver::run` of `_ZN6Solver3runEi`.
pub fn readable(symbol: &str) -> Cow<'_, str> {
    let options = DemangleOptions::new().no_params().no_return_type();
    written(symbol, &options).map_or(Cow::Borrowed(symbol), Cow::Owned)
}

/// A namespace without a name, which nobody writes, and spaces, of which one may write more or
/// fewer.
const UNWRITTEN: [&str; 2] = ["(anonymous namespace)::", " "];

/// Whether somebody who writes `wanted` means this symbol: `Solver::run` and `Solver::run(int)`.
pub fn means(wanted: &str, symbol: &str) -> bool {
    // A part of it that the compiler has put elsewhere.
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
    // What the demangler also takes: names of types, which are ordinary words.
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
