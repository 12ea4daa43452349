//! Files of `/proc` that describe the process itself, whose number is part of their names.

/// Directory of the process's files, independent of its number.
const SELF: &[u8] = b"/proc/self";
/// Directory of the main thread, independent of its number; a notation of understudy only.
const MAIN: &[u8] = b"/proc/self/task/self";

/// Splits off the decimal number at the start of a name.
fn number(name: &[u8]) -> Option<(u32, &[u8])> {
    let end = name.iter().position(|byte| !byte.is_ascii_digit());
    let (digits, rest) = name.split_at(end.unwrap_or(name.len()));
    let ends = rest.is_empty() || rest.starts_with(b"/");
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    ends.then_some((number, rest))
}

/// Returns the process-independent name, if `own` is the number of this process.
fn neutral_for(path: &[u8], own: u32) -> Option<Vec<u8>> {
    let (process, rest) = number(path.strip_prefix(b"/proc/")?)?;
    if process != own {
        return None;
    }
    let thread = rest.strip_prefix(b"/task/").and_then(number);
    match thread {
        None => Some([SELF, rest].concat()),
        Some((thread, rest)) => (thread == own).then(|| [MAIN, rest].concat()),
    }
}

/// Returns a name that means the corresponding file in every process.
pub fn neutral(path: &[u8]) -> Vec<u8> {
    neutral_for(path, std::process::id()).unwrap_or_else(|| path.to_vec())
}

/// Returns the name in this process for a process-independent name.
pub fn actual(path: &[u8]) -> Vec<u8> {
    match path.strip_prefix(MAIN) {
        Some(rest) => {
            let main = format!("/proc/self/task/{}", std::process::id());
            [main.as_bytes(), rest].concat()
        }
        None => path.to_vec(),
    }
}

/// Returns the name of the kind of a file of `/proc`.
pub fn kind(path: &[u8]) -> &'static str {
    let Some(rest) = path.strip_prefix(b"/proc") else {
        return "proc:other";
    };
    let is_of_a_process = rest.strip_prefix(b"/").and_then(number).is_some();
    match is_of_a_process {
        false => "file",
        true if neutral_for(path, std::process::id()).is_some() => "proc:self",
        true => "proc:other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_the_number_of_the_process() {
        let neutral = |path: &str| neutral_for(path.as_bytes(), 42);
        let is = |path: &str, expected: &str| {
            assert_eq!(
                neutral(path).as_deref(),
                Some(expected.as_bytes()),
                "{path}"
            );
        };
        is("/proc/42/statm", "/proc/self/statm");
        is("/proc/42", "/proc/self");
        is("/proc/42/task", "/proc/self/task");
        is("/proc/42/task/42/stat", "/proc/self/task/self/stat");
        for other in [
            "/proc/421/statm",
            "/proc/42/task/43",
            "/proc/42x",
            "/proc/stat",
            "/42",
        ] {
            assert_eq!(neutral(other), None, "{other}");
        }
        let own = format!("/proc/self/task/{}/stat", std::process::id());
        assert_eq!(actual(b"/proc/self/task/self/stat"), own.as_bytes());
        assert_eq!(kind(b"/proc/1/stat"), "proc:other");
        assert_eq!(kind(b"/proc/meminfo"), "file");
    }
}
