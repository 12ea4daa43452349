//! Packages of the workspace.

/// Returns the directories that a manifest lists as members or excludes.
pub fn packages(manifest: &str) -> Vec<String> {
    let mut names = Vec::new();
    for list in ["\nmembers = [", "\nexclude = ["] {
        let (_, rest) = manifest
            .split_once(list)
            .expect("a manifest with both lists");
        let (list, _) = rest.split_once(']').expect("a complete list");
        names.extend(list.split('"').skip(1).step_by(2).map(str::to_owned));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::packages;

    #[test]
    fn members_and_excluded_packages_are_read() {
        let manifest = "[workspace]\nmembers = [\n    \"a\",\n    \"a/b\",\n]\nexclude = [\"c\"]\n";
        assert_eq!(packages(manifest), ["a", "a/b", "c"]);
    }
}
