//! No circle of imports: of two files of a crate at most one uses the other, directly or through others.
//!
//! A module's own file and the files of its parts belong together, so imports between those are not looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The path of a module in its crate, such as `["recovery", "plan"]`; that of the crate itself is empty.
type Module = Vec<String>;
/// What each file of a crate uses of its others.
type Uses = BTreeMap<Module, BTreeSet<Module>>;

const CRATES: [&str; 31] = [
    "ckptd",
    "ckptd/daemon",
    "ckptd/formats",
    "ckptd/html",
    "ckptd/launch",
    "ckptd/messages",
    "ckptd/node",
    "ckptd/numbers",
    "ckptd/pmi",
    "ckptd/protocol",
    "ckptd/relay",
    "ckptd/report",
    "ckptd/settings",
    "ckptd/simulator",
    "ckptd/sockets",
    "ckptd/wire",
    "ffi-tests",
    "fuzz",
    "interpose/abi",
    "interpose/elf",
    "interpose/face",
    "interpose/face-debian",
    "interpose/face-mpich",
    "interpose/face-standard",
    "interpose/fortran",
    "interpose/image",
    "interpose/mpi",
    "interpose/policy",
    "interpose/runtime",
    "interpose/shim",
    "interpose/table",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All source files below a directory, and the modules that they are.
fn modules(directory: &Path, inside: &[String], found: &mut Vec<(Module, PathBuf)>) {
    for entry in fs::read_dir(directory).expect("a directory of sources") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let module = [inside, std::slice::from_ref(&name)].concat();
        if name == "generated" {
            // Its files belong to the modules that include them.
        } else if path.is_dir() {
            modules(&path, &module, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests" {
            let is_of_directory = ["lib", "main", "mod"].contains(&name.as_str());
            found.push((
                if is_of_directory {
                    inside.to_vec()
                } else {
                    module
                },
                path,
            ));
        }
    }
}

/// The text without comments and unit tests.
fn product(text: &str) -> String {
    let (product, _) = text
        .split_once("#[cfg(test)]\nmod tests {")
        .unwrap_or((text, ""));
    let lines = product
        .lines()
        .map(|line| line.split("//").next().unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

/// The paths that a tree of imports stands for, such as `a::{b, c::{d, e}}`.
fn expand(before: &[String], tree: &str, found: &mut Vec<Module>) {
    let (path, list) = tree.split_once('{').unwrap_or((tree, ""));
    let path = path.split(" as ").next().unwrap_or(path);
    let names = path
        .split("::")
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let path: Module = before
        .iter()
        .cloned()
        .chain(names.map(str::to_owned))
        .collect();
    if list.is_empty() {
        return found.push(path);
    }
    let (mut depth, mut from) = (0, 0);
    for (at, character) in list.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                expand(&path, &list[from..at], found);
                from = at + 1;
            }
            _ => {}
        }
    }
}

/// All paths from the crate, or from a module above, that a source names.
fn paths(text: &str) -> Vec<Module> {
    let mut found = Vec::new();
    let text = product(text);
    let mut rest = text.as_str();
    let starts = |text: &str| {
        ["crate::", "super::"]
            .iter()
            .filter_map(|word| text.find(word))
            .min()
    };
    while let Some(at) = starts(rest) {
        let is_import = rest[..at].trim_end().ends_with("use");
        let end = |character: char| match is_import {
            true => character == ';',
            false => !(character.is_alphanumeric() || "_:".contains(character)),
        };
        let length = rest[at..].find(end).unwrap_or(rest.len() - at);
        expand(&[], &rest[at..at + length], &mut found);
        rest = &rest[at + length..];
    }
    found
}

/// What a path means in a module: the longest part of it that is a file.
fn target(path: &[String], module: &[String], files: &BTreeSet<Module>) -> Module {
    let up = path.iter().take_while(|name| *name == "super").count();
    let (base, names): (&[String], _) = match up {
        0 => (&[], &path[1..]),
        _ => (&module[..module.len().saturating_sub(up)], &path[up..]),
    };
    let mut target = [base, names].concat();
    while !target.is_empty() && !files.contains(&target) {
        target.pop();
    }
    target
}

fn uses(sources: &[(Module, String)]) -> Uses {
    let files: BTreeSet<Module> = sources.iter().map(|(module, _)| module.clone()).collect();
    let is_related = |a: &[String], b: &[String]| a.starts_with(b) || b.starts_with(a);
    let of = |(module, text): &(Module, String)| {
        let targets = paths(text)
            .into_iter()
            .map(|path| target(&path, module, &files));
        (
            module.clone(),
            targets
                .filter(|target| !is_related(target, module))
                .collect(),
        )
    };
    sources.iter().map(of).collect()
}

/// Modules that are in circles, or lead from one to another: what is left when all that uses nothing, or is not used, is taken away.
fn circles(mut uses: Uses) -> Uses {
    loop {
        let used: BTreeSet<Module> = uses.values().flatten().cloned().collect();
        let before = uses.len();
        uses.retain(|module, targets| used.contains(module) && !targets.is_empty());
        let left: BTreeSet<Module> = uses.keys().cloned().collect();
        uses.values_mut()
            .for_each(|targets| targets.retain(|target| left.contains(target)));
        if uses.len() == before {
            return uses;
        }
    }
}

#[test]
fn imports_make_no_circles() {
    for name in CRATES {
        let mut found = Vec::new();
        let sources = root().join(name).join("src");
        if sources.is_dir() {
            modules(&sources, &[], &mut found);
        }
        found.retain(|(module, _)| module.first().is_none_or(|first| first != "bin"));
        let read = |(module, path): (Module, PathBuf)| {
            (module, fs::read_to_string(path).expect("a source"))
        };
        let circles = circles(uses(&found.into_iter().map(read).collect::<Vec<_>>()));
        assert!(circles.is_empty(), "{name}: {circles:#?}");
    }
}

#[test]
fn a_circle_is_found() {
    let source = |module: &[&str], text: &str| {
        (
            module.iter().map(|&name| name.to_owned()).collect(),
            text.to_owned(),
        )
    };
    let sources = |last: &str| {
        [
            source(&[], "mod a; mod b; mod c;"),
            source(&["a"], "use crate::b::{Thing, self};\nmod part;"),
            source(&["a", "part"], "use super::Whole;"),
            source(&["b"], "// crate::a\nfn f() { super::c::g() }"),
            source(&["c"], last),
        ]
    };
    assert_eq!(circles(uses(&sources("use std::{fs, io};"))), Uses::new());
    let found = circles(uses(&sources(
        "use crate::{\n    other as a,\n    a::{part::{One, Two}},\n};",
    )));
    assert_eq!(
        found.len(),
        0,
        "it stops at a part, which uses only its own module"
    );
    let found = circles(uses(&sources("use crate::{\n    b as other, a::Thing\n};")));
    assert_eq!(found.len(), 3);
}
