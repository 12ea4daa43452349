//! The schedule of the tests, `.config/nextest.toml`, names modules that exist.

use ffi_tests::paths;
use regex::Regex;

/// Modules that the text names in patterns such as `/^tools::(doctor|warn)::/`.
fn modules(text: &str) -> Vec<String> {
    let pattern = Regex::new(r"/\^([a-z_:]+)::(?:\(([a-z_|]+)\)::)?/").expect("a pattern");
    let names = pattern.captures_iter(text).flat_map(|found| {
        let folder = found[1].to_owned();
        let files = found.get(2).map_or("", |files| files.as_str());
        let name = move |file: &str| match file {
            "" => folder.clone(),
            file => format!("{folder}::{file}"),
        };
        files.split('|').map(name).collect::<Vec<_>>()
    });
    names.collect()
}

#[test]
fn scheduled_modules_exist() {
    let text = std::fs::read_to_string(paths::workspace().join(".config/nextest.toml"));
    let modules = modules(&text.expect("the schedule"));
    assert!(modules.len() > 5, "only {modules:?}");
    let tests = paths::workspace().join("ffi-tests/tests");
    let is_missing = |module: &&String| {
        let path = tests.join(module.replace("::", "/"));
        !path.is_dir() && !path.with_extension("rs").is_file()
    };
    let missing: Vec<_> = modules.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "no such modules: {missing:?}");
}

#[test]
fn patterns_of_the_schedule_are_read() {
    let found = modules("test(/^tools::(doctor|warn)::/) | test(/^installation::/)");
    assert_eq!(found, ["tools::doctor", "tools::warn", "installation"]);
}
