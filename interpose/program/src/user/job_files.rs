//! Files that the processes of a job have in one directory, named after the processes.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use understudy_numbers::ProcessNumber;

/// Lists the files whose names consist of `prefix`, a process number and one of `suffixes`.
///
/// The numbers are below `count`. The files are sorted by process number, and those of a process by
/// suffix. The directory is read, and not searched for a file of each process: a job has more
/// processes than a node.
///
/// # Errors
/// Fails if the directory exists and cannot be read.
pub fn job_files(
    directory: &Path,
    prefix: &str,
    count: u32,
    suffixes: &[&str],
) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let Some(label) = name.to_str().and_then(|name| name.strip_prefix(prefix)) else {
            continue;
        };
        let suffix = label.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = &label[..label.len() - suffix.len()];
        if let Ok(number) = digits.parse().map(ProcessNumber)
            && number.to_string() == digits
            && number.0 < count
            && let Some(suffix) = suffixes.iter().find(|other| **other == suffix)
        {
            found.push((number, *suffix, directory.join(&name)));
        }
    }
    found.sort_unstable();
    Ok(found.into_iter().map(|(.., path)| path).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_job_are_found_in_the_order_of_their_processes() {
        let directory =
            std::env::temp_dir().join(format!("understudy-files-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let own = ["job-2.undo", "job-2c.undo", "job-10.undo"];
        let others = [
            "job-a-2.undo",
            "job-02.undo",
            "job-.undo",
            "job-3.undo-lock",
            "job-11.undo",
        ];
        for name in own.iter().chain(&others) {
            fs::write(directory.join(name), "").unwrap();
        }
        let found = job_files(&directory, "job-", 11, &[".undo", "c.undo"]);
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(found.unwrap(), own.map(|name| directory.join(name)));
        assert!(job_files(&directory, "job-", 11, &[""]).unwrap().is_empty());
    }
}
