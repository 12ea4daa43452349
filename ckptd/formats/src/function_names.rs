//! Functions at addresses of ELF files, and their names as written in the source.
//!
//! Names of C++ functions are mangled in files (Itanium C++ ABI, section 5.1). Names of C and
//! Fortran functions are not changed.

use cpp_demangle::{DemangleOptions, Symbol};
use object::{File, Object, ObjectSymbol, SymbolKind};
use std::borrow::Cow;

/// Function in an ELF file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function<'a> {
    /// Address in the file.
    pub start: u64,
    length: u64,
    symbol: &'a str,
}

impl<'a> Function<'a> {
    /// Returns the name as written in the source.
    pub fn name(&self) -> Cow<'a, str> {
        readable(self.symbol)
    }
}

/// Finds the function around each of these sorted addresses.
///
/// The function that begins last is returned if functions overlap.
pub fn functions_at<'a>(file: &'a File<'a>, sorted: &[u64]) -> Vec<Option<Function<'a>>> {
    let mut found: Vec<Option<Function<'a>>> = vec![None; sorted.len()];
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        let (start, length) = (symbol.address(), symbol.size().max(1));
        let first = sorted.partition_point(|address| *address < start);
        let covers = |address: &&u64| **address - start < length;
        let count = sorted[first..].iter().take_while(covers).count();
        if count == 0 || symbol.kind() != SymbolKind::Text || !symbol.is_definition() {
            continue;
        }
        let Ok(symbol) = symbol.name() else { continue };
        for function in &mut found[first..first + count] {
            *function = (*function).max(Some(Function {
                start,
                length,
                symbol,
            }));
        }
    }
    found
}

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

    #[inline(never)]
    fn somewhere() -> u64 {
        std::hint::black_box(7)
    }

    #[test]
    fn functions_contain_the_addresses() {
        let bytes = std::fs::read("/proc/self/exe").expect("readable");
        let file = File::parse(&*bytes).expect("an ELF file");
        let is_somewhere = |name: &str| name.contains("somewhere") && !name.contains("closure");
        let mut symbols = file.symbols();
        let symbol = symbols.find(|symbol| symbol.name().is_ok_and(is_somewhere));
        let start = symbol.expect("a symbol").address();
        assert_eq!(somewhere(), 7);
        let found = functions_at(&file, &[0, start, start + 3]);
        assert_eq!(found[0], None);
        for function in &found[1..] {
            let function = function.expect("a function");
            assert_eq!(function.start, start);
            assert!(is_somewhere(&function.name()), "{function:?}");
        }
    }

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
