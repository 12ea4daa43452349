//! Lines that have changed since the stored counts were correct.

use std::collections::BTreeMap;
use std::ops::Range;
use std::process::Command;

use crate::workspace::root;

/// Changed lines by path; all lines of a new file have changed.
#[derive(Debug, Default, PartialEq)]
pub struct Changes(BTreeMap<String, Vec<Range<usize>>>);

impl Changes {
    /// Returns the changes since the last commit that has changed the file `path`.
    ///
    /// Without git, the result is empty.
    pub fn since_commit_of(path: &str) -> Changes {
        let commit = git(&["log", "-1", "--format=%H", "--", path]);
        let diff = git(&["diff", "--unified=0", "--no-color", commit.trim(), "--"]);
        let mut changes = Changes::of_diff(&diff);
        for path in git(&["ls-files", "--others", "--exclude-standard"]).lines() {
            changes
                .0
                .entry(path.to_owned())
                .or_default()
                .push(0..usize::MAX);
        }
        changes
    }

    /// Reads a diff without context lines.
    pub fn of_diff(diff: &str) -> Changes {
        let mut changes = Changes::default();
        let mut path = String::new();
        for line in diff.lines() {
            if let Some(name) = line.strip_prefix("+++ b/") {
                path = name.to_owned();
            } else if let Some(range) = line.strip_prefix("@@ ").and_then(added_lines) {
                changes.0.entry(path.clone()).or_default().push(range);
            }
        }
        changes
    }

    pub fn contains(&self, path: &str, line: usize) -> bool {
        self.0
            .get(path)
            .is_some_and(|ranges| ranges.iter().any(|range| range.contains(&line)))
    }
}

/// Returns the output of git, or an empty string after a failure.
fn git(arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(root())
        .output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).into(),
    )
}

/// Parses `-a,b +c,d @@`, in which `,1` may be omitted.
fn added_lines(hunk: &str) -> Option<Range<usize>> {
    let added = hunk.split(' ').nth(1)?.strip_prefix('+')?;
    let (start, count) = added.split_once(',').unwrap_or((added, "1"));
    let start = start.parse().ok()?;
    let count: usize = count.parse().ok()?;
    Some(start..start + count)
}

#[cfg(test)]
mod tests {
    use super::Changes;

    #[test]
    fn added_lines_are_changes() {
        let changes = Changes::of_diff(
            "--- a/b\n+++ b/b\n@@ -1 +1,2 @@ fn c() {\n-d\n+e\n+f\n@@ -9,2 +10 @@\n-g\n-h\n+i\n\
             --- a/j\n+++ b/j\n@@ -4,2 +3,0 @@\n-k\n-l\n",
        );
        let lines = |path: &str| -> Vec<usize> {
            (0..20)
                .filter(|line| changes.contains(path, *line))
                .collect()
        };
        assert_eq!(lines("b"), [1, 2, 10]);
        assert_eq!(lines("j"), [0; 0]);
        assert_eq!(lines("m"), [0; 0]);
    }

    #[test]
    fn no_output_is_no_change() {
        assert_eq!(Changes::of_diff(""), Changes::default());
    }
}
