//! Test that the files of a crate do not import each other in circles.
//!
//! Two files must not import from each other, directly or through further files. A module and its
//! submodules count as separate files. Binaries are not checked. An import of a name that a module
//! re-exports counts as an import from the file that defines the name.

#[allow(dead_code, reason = "the test `style` uses all of it")]
#[path = "style/lexer.rs"]
mod lexer;
#[path = "style/packages.rs"]
mod packages;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Path of a module in its crate, such as `["recovery", "plan"]`; the crate root's is empty.
type Module = Vec<String>;
/// Files of one crate, with the files that each of them uses.
type Uses = BTreeMap<Module, BTreeSet<Module>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Collects all source files below a directory, with their modules.
fn modules(directory: &Path, parent: &[String], found: &mut Vec<(Module, PathBuf)>) {
    for entry in fs::read_dir(directory).expect("a directory of sources") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let module = [parent, std::slice::from_ref(&name)].concat();
        if name == "generated" {
            // These files belong to the modules that include them.
        } else if path.is_dir() {
            modules(&path, &module, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests" {
            let is_of_directory = ["lib", "main", "mod"].contains(&name.as_str());
            found.push((
                if is_of_directory {
                    parent.to_vec()
                } else {
                    module
                },
                path,
            ));
        }
    }
}

/// Returns the code of a source without unit tests, comments and literals.
fn production_code(text: &str) -> String {
    let (text, _) = text
        .split_once("#[cfg(test)]\nmod tests {")
        .unwrap_or((text, ""));
    lexer::split(text).code
}

/// Collects the paths of a tree of imports, such as `a::{b, c::{d, e}}`, each after `prefix`.
fn expand(prefix: &[String], tree: &str, found: &mut Vec<Module>) {
    if tree.trim().is_empty() {
        return;
    }
    let (path, list) = tree.split_once('{').unwrap_or((tree, ""));
    let path = path.split(" as ").next().unwrap_or(path);
    let names = path
        .split("::")
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let path: Module = prefix
        .iter()
        .cloned()
        .chain(names.map(str::to_owned))
        .collect();
    if list.is_empty() {
        return found.push(path);
    }
    let (mut depth, mut start) = (0, 0);
    for (offset, character) in list.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                expand(&path, &list[start..offset], found);
                start = offset + 1;
            }
            _ => {}
        }
    }
}

/// Paths in a source: those that the source re-exports, and all other paths.
struct Paths {
    exported: Vec<Module>,
    used: Vec<Module>,
}

/// Returns true if a path starts at this offset.
fn is_path_start(text: &str, offset: usize) -> bool {
    let previous = text[..offset].chars().next_back();
    previous.is_none_or(|character| !(character.is_alphanumeric() || "_:".contains(character)))
}

/// Returns the paths of a source that begin with one of `roots`.
fn paths(text: &str, roots: &[&str]) -> Paths {
    let mut found = Paths {
        exported: Vec::new(),
        used: Vec::new(),
    };
    let text = production_code(text);
    let mut from = 0;
    let next = |from: usize| {
        let next_of_root = |root: &&str| {
            let offsets = text[from..].match_indices(*root).map(|(at, _)| from + at);
            offsets
                .filter(|&at| is_path_start(&text, at) && text[at + root.len()..].starts_with("::"))
                .min()
        };
        roots.iter().filter_map(next_of_root).min()
    };
    while let Some(at) = next(from) {
        let statement = text[..at].trim_end().strip_suffix("use");
        let end = |character: char| match statement {
            Some(_) => character == ';',
            None => !(character.is_alphanumeric() || "_:".contains(character)),
        };
        let length = text[at..].find(end).unwrap_or(text.len() - at);
        let is_exported = statement.is_some_and(|before| {
            let word = before.trim_end().rsplit([';', '}', '\n']).next();
            word.is_some_and(|word| word.trim_start().starts_with("pub"))
        });
        let list = match is_exported {
            true => &mut found.exported,
            false => &mut found.used,
        };
        expand(&[], &text[at..at + length], list);
        from = at + length;
    }
    found
}

/// Files of a crate, with the paths that each of them re-exports.
struct Files {
    exports: BTreeMap<Module, Vec<Module>>,
}

impl Files {
    /// Converts a path used in `module` to a path from the crate root.
    fn absolute(&self, path: &[String], module: &[String]) -> Module {
        let up = path.iter().take_while(|name| *name == "super").count();
        match path[0].as_str() {
            "crate" => path[1..].to_vec(),
            "self" => [module, &path[1..]].concat(),
            "super" => [&module[..module.len().saturating_sub(up)], &path[up..]].concat(),
            _ => [module, path].concat(),
        }
    }

    /// Returns the file that defines the item of a path from the root.
    fn target(&self, path: &[String], depth: usize) -> Module {
        let mut file = path.to_vec();
        while !file.is_empty() && !self.exports.contains_key(&file) {
            file.pop();
        }
        let name = path.get(file.len());
        let exported = name.and_then(|name| {
            let exports = self.exports.get(&file)?;
            exports.iter().find(|path| path.last() == Some(name))
        });
        match exported {
            Some(path) if depth > 0 => self.target(&self.absolute(path, &file), depth - 1),
            _ => file,
        }
    }
}

/// Returns the files that each source uses.
fn uses(sources: &[(Module, String)]) -> Uses {
    // Paths begin with a submodule or a keyword.
    let roots_of = |module: &Module| {
        let submodules = sources.iter().filter_map(|(other, _)| {
            let relative = other.strip_prefix(module.as_slice())?;
            (relative.len() == 1).then(|| relative[0].as_str())
        });
        submodules
            .chain(["crate", "super", "self"])
            .collect::<Vec<_>>()
    };
    let all_paths: Vec<_> = sources
        .iter()
        .map(|(module, text)| (module, paths(text, &roots_of(module))))
        .collect();
    let exports = all_paths
        .iter()
        .map(|(module, paths)| ((*module).clone(), paths.exported.clone()));
    let files = Files {
        exports: exports.collect(),
    };
    let uses_of = |(module, paths): &(&Module, Paths)| {
        let targets = paths
            .used
            .iter()
            .map(|path| files.target(&files.absolute(path, module), sources.len()));
        (
            (*module).clone(),
            targets.filter(|target| target != *module).collect(),
        )
    };
    all_paths.iter().map(uses_of).collect()
}

/// Returns the modules that are in circles, or on a path between circles.
///
/// Modules that use no other module, or that no other module uses, are removed repeatedly.
fn circles(mut uses: Uses) -> Uses {
    loop {
        let used: BTreeSet<Module> = uses.values().flatten().cloned().collect();
        let previous_count = uses.len();
        uses.retain(|module, targets| used.contains(module) && !targets.is_empty());
        let left: BTreeSet<Module> = uses.keys().cloned().collect();
        uses.values_mut()
            .for_each(|targets| targets.retain(|target| left.contains(target)));
        if uses.len() == previous_count {
            return uses;
        }
    }
}

/// Returns the circles of a crate.
fn circles_of(name: &str) -> Uses {
    let mut found = Vec::new();
    let sources = root().join(name).join("src");
    if sources.is_dir() {
        modules(&sources, &[], &mut found);
    }
    found.retain(|(module, _)| module.first().is_none_or(|first| first != "bin"));
    let read =
        |(module, path): (Module, PathBuf)| (module, fs::read_to_string(path).expect("a source"));
    circles(uses(&found.into_iter().map(read).collect::<Vec<_>>()))
}

#[test]
fn imports_make_no_circles() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace's manifest");
    let names = packages::packages(&manifest).into_iter();
    let found: Vec<_> = names.map(|name| (circles_of(&name), name)).collect();
    assert!(found.len() > 30, "only {} packages", found.len());
    let with_circles = found.iter().filter(|(circles, _)| !circles.is_empty());
    let lines = with_circles.flat_map(|(circles, name)| {
        circles.iter().map(move |(module, targets)| {
            let targets = targets.iter().map(|target| target.join("::"));
            let targets = targets.collect::<Vec<_>>().join(", ");
            format!("{name}: {} uses {targets}", module.join("::"))
        })
    });
    let lines: Vec<String> = lines.collect();
    assert!(lines.is_empty(), "{lines:#?}");
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
            source(&["a"], "use crate::b::{Thing, self};"),
            source(&["b"], "// crate::a\nfn f() { super::c::g() }"),
            source(&["c"], last),
        ]
    };
    assert_eq!(circles(uses(&sources("use std::{fs, io};"))), Uses::new());
    let found = circles(uses(&sources("use crate::{\n    b as other, a::Thing\n};")));
    assert_eq!(found.len(), 3);
}

#[test]
fn circles_of_a_module_and_its_parts_are_found() {
    let source = |module: &[&str], text: &str| {
        (
            module.iter().map(|&name| name.to_owned()).collect(),
            text.to_owned(),
        )
    };
    let sources = |parent: &str| {
        [
            source(&["a"], parent),
            source(&["a", "part"], "use super::Whole;\npub struct One;"),
            source(&["a", "whole"], "pub struct Whole;"),
        ]
    };
    let exporting = "mod part;\nmod whole;\npub use part::One;\npub(crate) use whole::Whole;";
    assert_eq!(circles(uses(&sources(exporting))), Uses::new());
    let found = circles(uses(&sources("mod part;\npub struct Whole(part::One);")));
    assert_eq!(found.len(), 2);
}
