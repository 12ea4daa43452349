//! `understudy simulate` and `advise` as a user runs them.

use serde_json::Value;
use std::process::{Command, Output};

fn understudy(line: &str) -> Output {
    let words = line.split_whitespace();
    Command::new(env!("CARGO_BIN_EXE_understudy"))
        .args(words)
        .output()
        .unwrap()
}

fn json(line: &str) -> Value {
    let output = understudy(line);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[track_caller]
fn assert_near(found: &Value, expected: f64, part: f64) {
    let found = found.as_f64().unwrap();
    assert!(
        (found - expected).abs() <= part * expected.abs(),
        "{found} instead of {expected}"
    );
}

#[test]
fn the_papers_machines_match_its_equations() {
    for (grid, global, log, dataflow, time, part) in [
        ("100", 700.0, 7.0, 25.7, 10_084.0, 0.15),
        ("1000", 75_758.0, 75.8, 278.0, 10_909.0, 0.1),
    ] {
        let found = json(&format!("simulate --grid {grid} --seeds 200 --json"));
        // The simulator's own tests check exact values; the equations are valid if failures are
        // rare. A node that fails while it waits for another node's recovery has lost nothing, but
        // the equations count failures of the whole run.
        let computing = found["undisturbed_s"].as_f64().unwrap() / time;
        for (name, tasks, counted) in [
            ("global", global, 1.0),
            ("log", log, computing),
            ("dataflow", dataflow, computing),
        ] {
            let strategy = &found["strategies"][name];
            let expected = &strategy["expected"];
            assert_near(&strategy["recomputed"], tasks * counted, part);
            assert_near(&strategy["energy_j"], tasks * counted * 500.0, part);
            assert_near(&strategy["time_s"], time, 0.02);
            assert_near(&expected["recomputed"], tasks, 0.006);
            assert_near(&expected["time_s"], time, 0.001);
            let failures = expected["failures"].as_f64().unwrap();
            assert_near(&strategy["failures"], failures, 0.1);
            assert!(strategy["deviation"]["recomputed"].as_f64().unwrap() > 0.0);
        }
    }
}

#[test]
fn a_machine_on_which_global_rollback_never_ends_is_no_error() {
    let line = "simulate --grid 1000x1000 --iterations 12 --seeds 1";
    let found = json(&format!("{line} --json"));
    assert!(found["strategies"]["global"].is_null());
    assert!(found["strategies"]["log"]["failures"].as_f64().unwrap() > 100.0);
    let text = String::from_utf8(understudy(line).stdout).unwrap();
    assert!(
        text.contains("With global rollback the run never ends"),
        "{text}"
    );
}

#[test]
fn the_figure_has_a_mark_for_each_machine_and_way() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("figure.svg");
    for grid in ["1000", "32x32"] {
        let output = understudy(&format!("simulate --grid {grid} -o {}", path.display()));
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let figure = std::fs::read_to_string(&path).unwrap();
        assert!(
            figure.starts_with("<svg xmlns=") && figure.ends_with("</svg>"),
            "{figure}"
        );
        // Diagrams with three, one and three curves of ten machines; the legend has one more mark
        // of each.
        let count = |shape: &str| figure.matches(shape).count();
        assert_eq!(count("<rect class=\"mark global\""), 21);
        assert_eq!(count("<circle class=\"mark log\""), 21);
        assert_eq!(count("<path class=\"mark dataflow\""), 31);
        assert!(
            !figure.contains("NaN") && !figure.contains("inf"),
            "{figure}"
        );
    }
    let output = understudy("simulate --grid 10 --iterations 10 -o /nowhere/figure.svg");
    assert_eq!(output.status.code(), Some(3));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("cannot be written to /nowhere/figure.svg"),
        "{message}"
    );
}

#[test]
fn the_model_needs_no_simulation() {
    let line =
        "simulate --model --nodes 100000 --node-mtbf 50y --every 10 --task 4s --watts-saved 10";
    let found = json(&format!("{line} --json"));
    assert_near(&found["joules"], 200.0, 1e-12);
    assert_near(&found["chain"]["neighbours"], 9.0, 1e-12);
    assert_near(&found["grid"]["neighbours"], 66.0, 1e-12);
    assert_near(&found["chain"]["watts"], 1267.4, 1e-4);
    let text = String::from_utf8(understudy(line).stdout).unwrap();
    assert!(text.contains("equation 3"), "{text}");
    for wrong in [
        "simulate",
        "simulate --model",
        "simulate --nodes 5",
        "simulate --grid 0",
        "simulate --grid 9 --joules -1",
    ] {
        assert_eq!(understudy(wrong).status.code(), Some(2), "{wrong}");
    }
}

/// The first line of tables 5.2 and 5.3 of Liu's thesis is reproduced.
#[test]
fn advice_has_all_equations_of_the_thesis() {
    let line = "advise --cost 0.2434s --mtbf 5000s --time 1233.42s --recovery 9.8981s";
    let found = json(&format!("{line} --json"));
    assert_near(&found["count"], 25.0, 1e-3);
    assert_near(&found["liu"], 49.58, 1e-3);
    assert_near(
        &found["expected_local"],
        1233.42 * (1.0 + 9.8981 / 5000.0),
        1e-9,
    );
    let value = |name: &str| found[name].as_f64().unwrap();
    let penalty = value("expected_with") / value("expected_local") - 1.0;
    assert_near(&found["penalty"], penalty, 1e-9);
    assert_near(&found["penalty_of_cost"], penalty, 0.01);
    let text = String::from_utf8(understudy(line).stdout).unwrap();
    assert!(text.contains("with localised rollback"), "{text}");
}
