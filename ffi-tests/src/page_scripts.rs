//! Scripts of the book, run as the page prints them.
//!
//! A test takes a fenced block out of a page, and executes its text without a change. The names in
//! the script stand for what the test provides: commands on the PATH ([`Commands`]), files of the
//! working directory, and variables of the environment.
//!
//! ```text
//!   let script = page_scripts::below("docs/run/hosts.md", "# Several hosts").remove(0);
//!   let commands = Commands::new();          understudy, ckptd, and `module` without effect
//!   commands.add("ssh", "…");                further commands
//!   page_scripts::substitute(&work.join("solver"), &program, &arguments);
//!   Command::new("bash").args(["-c", &script]).env("PATH", commands.path())
//! ```
//!
//! Under Slurm: `Allocation::of_script` in `slurm_allocation`.

use crate::paths;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Returns the shell scripts between a heading of a page and the next heading.
///
/// `page` is relative to the root of the repository, and `heading` is the whole line.
///
/// # Panics
/// Panics if there is no such page, heading or script.
#[track_caller]
pub fn below(page: &str, heading: &str) -> Vec<String> {
    let text = std::fs::read_to_string(paths::workspace().join(page))
        .unwrap_or_else(|error| panic!("{page} cannot be read: {error}"));
    let scripts = scripts_below(&text, heading);
    assert!(
        !scripts.is_empty(),
        "{page} has no script below `{heading}`"
    );
    scripts
}

fn scripts_below(text: &str, heading: &str) -> Vec<String> {
    let mut scripts: Vec<String> = Vec::new();
    let (mut is_below, mut is_shell) = (false, None);
    for line in text.lines() {
        match (is_shell, line.strip_prefix("```")) {
            (None, Some(language)) => {
                is_shell = Some(language == "sh" && is_below);
                scripts.extend((is_shell == Some(true)).then(String::new));
            }
            (Some(_), Some(_)) => is_shell = None,
            (Some(true), None) => {
                if let Some(script) = scripts.last_mut() {
                    script.push_str(line);
                    script.push('\n');
                }
            }
            (None, None) if line.starts_with('#') => is_below = line == heading,
            (_, None) => {}
        }
    }
    scripts
}

/// Commands that a script finds on the PATH, in front of all others.
pub struct Commands {
    directory: tempfile::TempDir,
}

impl Commands {
    /// Provides the products of this build, and `module` without effect.
    ///
    /// # Panics
    /// Panics if no temporary directory can be made.
    pub fn new() -> Commands {
        let directory = tempfile::tempdir().expect("there is room for temporary files");
        let commands = Commands { directory };
        commands.add("module", "true");
        commands
    }

    /// Adds a command that is a shell script with this text.
    ///
    /// # Panics
    /// Panics if the file cannot be written.
    pub fn add(&self, name: &str, text: &str) {
        script(&self.directory.path().join(name), text);
    }

    /// Returns the PATH with these commands and the products of this build.
    ///
    /// # Panics
    /// Panics if the PATH has a colon in a name.
    pub fn path(&self) -> OsString {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let first: [PathBuf; 2] = [self.directory.path().to_owned(), products()];
        let all = first.into_iter().chain(std::env::split_paths(&path));
        std::env::join_paths(all).expect("no colon")
    }
}

impl Default for Commands {
    fn default() -> Commands {
        Commands::new()
    }
}

/// Writes a script that executes `program` with these arguments, whatever its own are.
///
/// # Panics
/// Panics if the file cannot be written.
pub fn substitute(path: &Path, program: &Path, arguments: &[&str]) {
    let words = arguments.join(" ");
    script(path, &format!("exec {} {words}", program.display()));
}

fn script(path: &Path, text: &str) {
    paths::script(path, &format!("#!/bin/sh\n{text}\n"));
}

fn products() -> PathBuf {
    let understudy = paths::product("understudy");
    understudy.parent().map(Path::to_owned).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::scripts_below;

    #[test]
    fn scripts_are_those_of_a_heading() {
        let page = "# A\n```sh\n# B\none\n```\n```text\nno\n```\n## B\n```sh\ntwo\n```\n\
                    ```sh\nthree\n```\n## C\n```sh\nfour\n```\n";
        assert_eq!(scripts_below(page, "# A"), ["# B\none\n"]);
        assert_eq!(scripts_below(page, "## B"), ["two\n", "three\n"]);
        assert_eq!(scripts_below(page, "## D"), Vec::<String>::new());
    }
}
