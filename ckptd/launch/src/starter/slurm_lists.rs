//! Lists of hosts and numbers, as Slurm and Flux write them.

use crate::Error;

/// Limit of the length of a list of hosts.
const MAX_HOSTS: usize = 1 << 20;

/// Expands a list of hosts, such as `n[1-3,07],login`.
///
/// # Errors
/// [`Error::Hosts`].
pub(super) fn expand_hosts(list: &str) -> Result<Vec<String>, Error> {
    let wrong = || Error::Hosts(format!("`{list}` is not a list of hosts"));
    let mut all = Vec::new();
    for item in split_items(list) {
        let mut names = vec![String::new()];
        let mut rest = item;
        while let Some((before, after)) = rest.split_once('[') {
            let (ranges, after) = after.split_once(']').ok_or_else(wrong)?;
            let numbers = expand_ranges(ranges).ok_or_else(wrong)?;
            if numbers.len().saturating_mul(names.len()) > MAX_HOSTS {
                return Err(wrong());
            }
            let with = |name: &String| {
                let start = format!("{name}{before}");
                let numbers = numbers.iter();
                numbers
                    .map(|number| format!("{start}{number}"))
                    .collect::<Vec<_>>()
            };
            names = names.iter().flat_map(with).collect();
            rest = after;
        }
        all.extend(names.into_iter().map(|name| name + rest));
    }
    match all.iter().any(|name| name.is_empty() || name.contains(']')) {
        true => Err(wrong()),
        false => Ok(all),
    }
}

/// Splits a list at the commas outside of brackets.
fn split_items(list: &str) -> impl Iterator<Item = &str> {
    let mut is_inside = false;
    let at_comma = move |letter: char| {
        is_inside = match letter {
            '[' => true,
            ']' => false,
            _ => is_inside,
        };
        letter == ',' && !is_inside
    };
    list.split(at_comma).filter(|item| !item.is_empty())
}

/// Expands `1-3,07` to `1`, `2`, `3`, `07`; `None` if the text is malformed.
fn expand_ranges(ranges: &str) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let width = first.len();
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last - first > MAX_HOSTS {
            return None;
        }
        all.extend((first..=last).map(|number| format!("{number:0width$}")));
    }
    Some(all)
}

/// Expands `2(x3),1` to 2, 2, 2, 1.
///
/// # Errors
/// [`Error::Hosts`].
pub(super) fn expand_numbers(text: &str) -> Result<Vec<u32>, Error> {
    let wrong = || Error::Hosts(format!("`{text}` is not a list of numbers"));
    let mut all = Vec::new();
    for item in text.split(',') {
        let (number, times) = match item.split_once("(x") {
            Some((number, times)) => (number, times.strip_suffix(')').ok_or_else(wrong)?),
            None => (item, "1"),
        };
        let times: usize = times.parse().map_err(|_| wrong())?;
        if times > MAX_HOSTS {
            return Err(wrong());
        }
        let number: u32 = number.parse().map_err(|_| wrong())?;
        all.extend(std::iter::repeat_n(number, times));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_hosts_are_expanded() {
        let expanded = |list: &str| expand_hosts(list).ok();
        let all = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect());
        assert_eq!(expanded("n1"), all(&["n1"]));
        assert_eq!(
            expanded("n[1-3,07],login,r[1-2]c[0-1]-x"),
            all(&[
                "n1", "n2", "n3", "n07", "login", "r1c0-x", "r1c1-x", "r2c0-x", "r2c1-x"
            ])
        );
        assert_eq!(expanded("n[09-10]"), all(&["n09", "n10"]));
        for wrong in ["n[1", "n[a-b]", "n[3-1]", "n1]", "n[1-99999999999]"] {
            assert_eq!(expanded(wrong), None, "{wrong}");
        }
    }
}
