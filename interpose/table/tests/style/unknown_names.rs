//! Rule for names in comments.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use crate::workspace::{self, Source};

/// Prefixes of names that MPI, PMIx, the kernel, the C library and the compiler define.
///
/// The C interface of understudy is included.
const FOREIGN_PREFIXES: [&str; 18] = [
    "_",
    "AT_",
    "CUDA_",
    "DW_",
    "Elf64_",
    "FLAG_",
    "INET_",
    "IOCB_",
    "MPII_",
    "MPIR_",
    "MPIX_",
    "MPI_",
    "OMPI_",
    "PMIX_",
    "PMPI_",
    "SYS_",
    "pmix_",
    "understudy_",
];

/// Other names that are defined outside of this project.
const FOREIGN: [&str; 33] = [
    "CPUCLOCK_SCHED",
    "ERRORS_THROW_EXCEPTIONS",
    "IOPRIO_WHO_PROCESS",
    "KIND_key_0",
    "KIND_val_0",
    "PATH_MAX",
    "PERF_ATTR_SIZE_VER1",
    "SYSCALL_DISPATCH_FILTER_BLOCK",
    "aio_abi",
    "attribute_val",
    "attribute_val_in",
    "attribute_val_out",
    "coll_tuned_allreduce_algorithm",
    "determine_low_group",
    "exclude_hv",
    "exclude_kernel",
    "ioctx_alloc",
    "l_searchlist",
    "lost_connection",
    "mpi_f08",
    "mpirun_rsh",
    "procmap_query",
    "pthread_exit",
    "sa_restorer",
    "sched_autogroup_enabled",
    "shmem_enabled",
    "struct_mutex",
    "struct_rwlock",
    "syscall_64",
    "tcp_get_info",
    "ucs_sys_realloc",
    // Placeholders.
    "call_N",
    "write_back",
];

/// Returns the lines of comments with an undefined name in backquotes.
///
/// Only names with an underscore count; other names may be words, values or commands.
pub fn unknown_names(source: &Source) -> Vec<usize> {
    static DEFINED: OnceLock<BTreeSet<String>> = OnceLock::new();
    lines(
        source,
        DEFINED.get_or_init(|| names(&workspace::rust_sources())),
    )
}

/// Returns all identifiers of code, words of literals, and names of files.
///
/// Literals of this file are excluded.
fn names(sources: &[Source]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for source in sources {
        let literals = source.parts.literals.iter().map(|literal| &literal.range);
        let literals = literals.filter(|_| !source.path.ends_with("/unknown_names.rs"));
        for range in source.parts.names.iter().chain(literals) {
            names.extend(identifiers(&source.text[range.clone()]).map(str::to_owned));
        }
        names.extend(identifiers(&source.path).map(str::to_owned));
    }
    names
}

fn lines(source: &Source, known: &BTreeSet<String>) -> Vec<usize> {
    let is_unknown = |name: &str| {
        name.contains('_')
            && !FOREIGN_PREFIXES
                .iter()
                .any(|prefix| name.starts_with(prefix))
            && !name.ends_with("_t")
            && !FOREIGN.contains(&name)
            && !known.contains(name)
    };
    let comments = source.parts.comments.iter();
    let found = comments.filter(|range| {
        codes(&source.text[range.start..range.end])
            .flat_map(identifiers)
            .any(is_unknown)
    });
    found.map(|range| source.line_at(range.start)).collect()
}

/// Returns the pieces between backquotes, except structures of C.
///
/// A line with an odd number of backquotes is omitted, as it begins a block or breaks a piece.
fn codes(comment: &str) -> impl Iterator<Item = &str> {
    let is_complete = comment.matches('`').count().is_multiple_of(2);
    let pieces = comment.split('`').skip(1).step_by(2);
    pieces.filter(move |piece| is_complete && !piece.starts_with("struct "))
}

/// Returns the words of a text.
pub fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    let words =
        text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    words.filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{FOREIGN, FOREIGN_PREFIXES, Source, lines, names};

    fn lines_of(text: &str) -> Vec<usize> {
        let source = Source::rust("a", "a/file_name.rs", text.to_owned());
        let known = names(std::slice::from_ref(&source));
        lines(&source, &known)
    }

    #[test]
    fn names_that_nothing_defines_count() {
        for comment in [
            "// `a_b`",
            "/// A `a_b`.",
            "//! [`a::a_b`]",
            "// `c` `a_b()`",
            "/// `A_B`",
        ] {
            let text = format!("fn c() {{}}\n{comment}\nfn d() {{}}");
            assert_eq!(lines_of(&text), [2], "{text}");
        }
    }

    #[test]
    fn defined_names_do_not_count() {
        for text in [
            "// `a_b`\nfn a_b() {}",
            "// `a_b`\nlet c = c.a_b;",
            "// `a_b`\nlet c = \"the a_b\";",
            "// `file_name`",
            "// `a` a_b",
            "// `a_b",
            "// ```a_b",
            "// `struct a_b`",
            "let c = \"`a_b`\";",
        ] {
            assert_eq!(lines_of(text), [0; 0], "{text}");
        }
        // A name in another comment does not define anything.
        assert_eq!(lines_of("// `a_b`\n// a_b"), [1]);
    }

    #[test]
    fn foreign_names_do_not_count() {
        let prefixed = FOREIGN_PREFIXES.map(|prefix| format!("{prefix}a"));
        for name in FOREIGN.map(str::to_owned).iter().chain(&prefixed) {
            assert_eq!(lines_of(&format!("// `{name}`")), [0; 0], "{name}");
        }
        assert_eq!(lines_of("// `sigset_t`"), [0; 0]);
    }
}
