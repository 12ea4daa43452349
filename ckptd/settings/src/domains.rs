//! The file of `UNDERSTUDY_DOMAIN`: lines `host domain`; `#` begins a comment.

use std::path::Path;

/// Returns the failure domain of a host; `None` if the host is not listed.
///
/// # Errors
/// Fails with the reason if the file cannot be read, or with the number of a malformed line.
pub fn domain_of_host(file: &Path, host: &str) -> Result<Option<String>, String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    domain_in(&text, host)
}

fn domain_in(text: &str, host: &str) -> Result<Option<String>, String> {
    let mut found = None;
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line
            .split('#')
            .next()
            .unwrap_or("")
            .split_whitespace()
            .collect();
        match words[..] {
            [] => {}
            [name, domain] if name == host => found = Some(domain.to_owned()),
            [_, _] => {}
            _ => return Err(format!("line {} is not `host domain`", index + 1)),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_domains_has_a_pair_in_each_line() {
        let text = "# racks\nn1 left\n\nn2   right # the new one\n";
        assert_eq!(domain_in(text, "n2"), Ok(Some("right".into())));
        assert_eq!(domain_in(text, "n3"), Ok(None));
        assert_eq!(
            domain_in("n1 left\nn2\n", "n1"),
            Err("line 2 is not `host domain`".into())
        );
    }
}
