//! Rules about the sources of the whole workspace that the compiler does not check.
//!
//! CONTRIBUTING.md describes them.

mod crate_rules;

use crate_rules::{CrateRule, RULES};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the workspace is there")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the dependencies of a manifest by section.
///
/// The sections are `dependencies`, `build-dependencies` and `dev-dependencies`.
fn dependencies(manifest: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut sections: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut section = String::new();
    for line in manifest.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        } else if section.ends_with("dependencies")
            && let Some((name, _)) = line.split_once('=')
        {
            let name = name.trim().trim_end_matches(".workspace").to_owned();
            sections.entry(section.clone()).or_default().insert(name);
        }
    }
    sections
}

/// Crates for command lines, screens, pages and JSON.
const TOOL_CRATES: [&str; 4] = ["clap", "maud", "ratatui", "serde"];

#[test]
fn the_runtime_depends_on_no_crate_of_the_tools() {
    let mut unchecked = vec!["understudy-runtime"];
    while let Some(name) = unchecked.pop() {
        let rule = RULES.iter().find(|rule| rule.name == name);
        let rule = rule.unwrap_or_else(|| panic!("{name} has no rule"));
        let manifest = read(&root().join(rule.directory).join("Cargo.toml"));
        let sections = dependencies(&manifest);
        let names = sections.get("dependencies").cloned().unwrap_or_default();
        for tool_crate in TOOL_CRATES {
            assert!(
                !names.contains(tool_crate),
                "{name} depends on {tool_crate}"
            );
        }
        unchecked.extend(rule.uses);
    }
}

#[test]
fn crates_use_each_other_one_way_only() {
    let members: BTreeSet<&str> = RULES.iter().map(|rule| rule.name).collect();
    for rule in RULES {
        let manifest = read(&root().join(rule.directory).join("Cargo.toml"));
        assert!(
            manifest.contains(&format!("name = \"{}\"", rule.name)),
            "{}",
            rule.directory
        );
        for (section, names) in dependencies(&manifest) {
            let allowed = match section.as_str() {
                "dependencies" => rule.uses,
                "build-dependencies" | "dev-dependencies" => &[],
                other => panic!("{}: [{other}] is not known to this test", rule.name),
            };
            for name in &names {
                let is_own = members.contains(name.as_str());
                let is_allowed = if is_own {
                    allowed.contains(&name.as_str())
                } else {
                    rule.allows_foreign || section == "dev-dependencies"
                };
                assert!(
                    is_allowed,
                    "{} must not have {name} among its {section}",
                    rule.name
                );
            }
        }
    }
}

#[test]
fn every_crate_from_elsewhere_is_accounted_for() {
    let members: BTreeSet<&str> = RULES.iter().map(|rule| rule.name).collect();
    let document = read(&root().join("docs/reference/dependencies.md"));
    for rule in RULES {
        let manifest = read(&root().join(rule.directory).join("Cargo.toml"));
        for name in dependencies(&manifest).into_values().flatten() {
            let is_listed = document.contains(&format!("`{name}`"));
            assert!(
                is_listed || members.contains(name.as_str()),
                "docs/reference/dependencies.md does not say why {} uses {name}",
                rule.name
            );
        }
    }
}

#[test]
fn every_member_of_the_workspace_has_a_rule() {
    let manifest = read(&root().join("Cargo.toml"));
    let list = manifest
        .split_once("members = [")
        .and_then(|(_, rest)| rest.split_once(']'))
        .expect("members")
        .0;
    let members: BTreeSet<&str> = list
        .split(',')
        .map(|item| item.trim().trim_matches('"'))
        .filter(|item| !item.is_empty())
        .collect();
    assert_eq!(members, RULES.iter().map(|rule| rule.directory).collect());
}

/// Collects the Rust files below a directory, with their texts.
fn collect(directory: &Path, found: &mut Vec<(PathBuf, String)>) {
    let entries = std::fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    for path in entries.map(|entry| entry.expect("readable").path()) {
        if path.is_dir() {
            if !path.ends_with("target") {
                collect(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = read(&path);
            found.push((path, text));
        }
    }
}

/// Returns the handwritten Rust sources of a crate.
fn sources_of(rule: &CrateRule) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    collect(&root().join(rule.directory), &mut found);
    found.retain(|(path, _)| {
        !path
            .components()
            .any(|part| part.as_os_str() == "generated")
    });
    // The preload libraries for other ABIs have no sources of their own.
    assert!(
        !found.is_empty() || rule.name.starts_with("understudy-face-"),
        "{}",
        rule.directory
    );
    found
}

fn sources() -> Vec<(PathBuf, String)> {
    RULES.iter().flat_map(sources_of).collect()
}

/// Returns the code of a file without comments and one-line strings.
fn code(text: &str) -> impl Iterator<Item = (usize, String)> + '_ {
    let quoted =
        |line: &str| -> String { line.split('"').step_by(2).collect::<Vec<_>>().join("\"\"") };
    text.lines().enumerate().filter_map(move |(number, line)| {
        let line = line.trim();
        let is_code = !line.starts_with("//") && !line.is_empty();
        is_code.then(|| {
            (
                number + 1,
                quoted(line).split(" // ").next().unwrap_or("").to_owned(),
            )
        })
    })
}

/// Returns true if the lint `unsafe_code` applies to a line of code.
///
/// Types of functions are excluded.
fn is_unsafe(code: &str) -> bool {
    let starts = [
        "unsafe {",
        "unsafe impl ",
        "unsafe fn ",
        "#[unsafe(",
        "unsafe extern \"\" {",
    ];
    starts.iter().any(|text| code.contains(text))
        || (code.contains("unsafe extern \"\" fn ") && code.ends_with('{'))
}

/// Returns the positions, in lines of code, of attributes that allow unsafe code.
///
/// An attribute may have several lines.
fn allowances(text: &str, beginning: &str) -> Vec<usize> {
    let lines: Vec<String> = code(text).map(|(_, line)| line).collect();
    let allows = |first: &usize| {
        let end = lines[*first..].iter().position(|line| line.ends_with(")]"));
        let attribute = &lines[*first..=*first + end.unwrap_or(0)];
        attribute[0].starts_with(beginning) && attribute.concat().contains("unsafe_code")
    };
    (0..lines.len()).filter(allows).collect()
}

#[test]
fn attributes_of_several_lines_are_read() {
    let text = "// a\n#![allow(unsafe_code)]\n#![allow(\n    b,\n    unsafe_code\n)]\n\
                #![allow(\n    b\n)]\nfn c() { unsafe_code }\n";
    assert_eq!(allowances(text, "#![allow("), [0, 1]);
    assert_eq!(allowances(text, "#[allow("), [0; 0]);
}

/// An attribute at the top of a module allows unsafe code in this module.
///
/// Readers then see in the first lines that the module has unsafe code. In crate roots, where an
/// attribute at the top would apply to the whole crate, the attribute is at the item. In modules
/// with one or two small unsafe functions, the attribute may be at these functions instead.
#[test]
fn unsafe_code_is_announced() {
    // The table contains unsafe code only as text.
    for rule in RULES.iter().filter(|rule| rule.name != "understudy-table") {
        for (path, text) in sources_of(rule) {
            let inner = allowances(&text, "#![allow(").first().copied();
            let is_root = path.ends_with("src/lib.rs")
                || path
                    .parent()
                    .is_some_and(|parent| parent.ends_with("src/bin"));
            assert!(
                !is_root || inner.is_none(),
                "{} allows unsafe code in the whole crate",
                path.display()
            );
            assert!(
                inner.unwrap_or(0) < 3,
                "{}: the attribute that allows unsafe code is not at the top",
                path.display()
            );
            let at_items = allowances(&text, "#[allow(").len();
            assert!(
                inner.is_none() || at_items == 0,
                "{} allows unsafe code twice",
                path.display()
            );
            assert!(
                is_root || at_items <= 2,
                "{} allows unsafe code at {at_items} items; do it at the top",
                path.display()
            );
            if let Some((line, _)) = code(&text).find(|(_, line)| is_unsafe(line)) {
                assert!(
                    inner.is_some() || at_items > 0,
                    "{}:{line} is unsafe code",
                    path.display()
                );
            }
        }
    }
}

fn is_of_the_standard(name: &str) -> bool {
    ["MPI_", "PMPI_", "MPIX_", "PMPIX_"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// Returns true if a name is in capitals.
///
/// Names in capitals are constants of the standard, which are objects or functions, and Fortran's
/// names of procedures.
fn is_in_capitals(name: &str) -> bool {
    !name.contains(|character: char| character.is_ascii_lowercase())
}

#[test]
fn only_procedures_are_exported_under_names_of_the_standard() {
    let table = understudy_table::table();
    for procedure in &table.procedures {
        assert!(
            procedure
                .exported_names()
                .iter()
                .all(|name| is_of_the_standard(name)),
            "{}",
            procedure.name
        );
    }
    let functions = table.functions.iter().map(|function| &function.name);
    let data = table.data.iter().map(|data| &data.name);
    for name in functions
        .chain(data)
        .filter(|name| is_of_the_standard(name))
    {
        assert!(is_in_capitals(name), "{name} is exported but no procedure");
    }
}

/// Returns the name of the function that a line of code defines.
fn function(code: &str) -> Option<&str> {
    let (_, rest) = code.split_once("fn ")?;
    let end =
        rest.find(|character: char| !character.is_ascii_alphanumeric() && character != '_')?;
    Some(&rest[..end]).filter(|name| !name.is_empty())
}

#[test]
fn only_handlers_are_called_like_procedures() {
    let handlers = root().join("interpose/runtime/src/calls");
    // The Fortran procedures declare the C procedures that they call, so their files are not
    // searched.
    let fortran = root().join("interpose/fortran");
    let is_production_code = |path: &Path| {
        !path.starts_with(&fortran)
            && path
                .components()
                .any(|component| component.as_os_str() == "src")
    };
    for (path, text) in sources()
        .into_iter()
        .filter(|(path, _)| is_production_code(path))
    {
        for (line, code) in code(&text) {
            let Some(name) = function(&code).filter(|name| is_of_the_standard(name)) else {
                continue;
            };
            let location = format!("{}:{line}: {name}", path.display());
            assert!(path.starts_with(&handlers), "{location} is not a handler");
            assert!(
                understudy_table::table().procedure(name).is_some(),
                "{location} is no procedure"
            );
        }
    }
}
