//! General behaviour of the `understudy` command.

use std::process::{Command, Output, Stdio};

fn understudy(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_understudy"))
        .args(arguments)
        .output()
        .unwrap()
}

/// Names of the commands in the help text.
fn commands() -> Vec<String> {
    let help = String::from_utf8(understudy(&["--help"]).stdout).unwrap();
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = list
        .take_while(|line| !line.is_empty())
        .map(|line| line.split_whitespace().next().unwrap().to_owned());
    names.filter(|name| name != "help").collect()
}

#[test]
fn wrong_usage_has_status_2() {
    for arguments in [
        &["dance"][..],
        &["events"],
        &["events", "--no-such-option", "."],
    ] {
        let output = understudy(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn workers_are_counted_as_for_mpirun() {
    let refused = |words: &[&str]| String::from_utf8(understudy(words).stderr).unwrap();
    let program = ["--", "/nowhere/solver", "-np", "3"];
    for words in [["run", "-np", "x"], ["run", "-n", "x"]] {
        let message = refused(&[&words[..], &program].concat());
        assert!(
            message.contains("invalid value 'x' for '--workers"),
            "{message}"
        );
    }
}

#[test]
fn advice_by_a_given_cost_needs_no_events() {
    let output = understudy(&["advise", "--cost", "1s", "--mtbf", "1d"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("as given")
    );
}

#[test]
fn every_command_has_a_man_page_with_exit_statuses() {
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man");
    assert!(
        understudy(&["man", pages.to_str().unwrap()])
            .status
            .success()
    );
    assert!(commands().contains(&"events".to_owned()));
    for name in commands() {
        let page = std::fs::read_to_string(pages.join(format!("understudy-{name}.1"))).unwrap();
        assert!(
            page.contains(".TH understudy") && page.contains(".SH \"EXIT STATUS\"\n"),
            "{name}: {page}"
        );
        let help = String::from_utf8(understudy(&[&name, "--help"]).stdout).unwrap();
        assert!(help.contains("Exit status:\n  "), "{name}: {help}");
    }
    let page = std::fs::read_to_string(pages.join("understudy.1")).unwrap();
    assert!(page.contains(".SH \"EXIT STATUS\"\n"), "{page}");
}

#[test]
fn bash_understands_its_completions() {
    let script = understudy(&["completions", "bash"]).stdout;
    let check = "source /dev/stdin; COMP_WORDS=(understudy eve); COMP_CWORD=1; _understudy \
        understudy eve understudy; echo \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash")
        .args(["-c", check])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut bash.stdin.take().unwrap(), &script).unwrap();
    let output = bash.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), "events");
}

#[test]
fn man_pages_need_a_place_that_can_be_written_to() {
    let output = understudy(&["man", "/proc/nowhere"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(
        message.contains("can be written to /proc/nowhere"),
        "{message}"
    );
    assert_eq!(message.lines().count(), 1);
}
