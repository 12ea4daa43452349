//! `understudy report`: pages of real jobs with zero, one and five failures, and their display.

use ffi_tests::command::UnderstudyCommand;
use ffi_tests::{Requirement, is_thorough, paths, skip};
use regex::Regex;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs a job whose workers fail at the given checkpoints, and makes its page.
fn page(work: &Path, deaths: &[(u32, u64)]) -> (PathBuf, String) {
    let heat = paths::example("heat2d").to_string_lossy().into_owned();
    let faults: Vec<_> = deaths
        .iter()
        .map(|(rank, epoch)| format!("kill rank={rank} at=commit.end epoch={epoch}"))
        .collect();
    let (spares, fault) = (deaths.len().max(1).to_string(), faults.join("; "));
    let start = [
        "run",
        "-n",
        "3",
        "--spares",
        &spares,
        "--interval",
        "80calls",
        "--events",
        "events",
    ];
    let fault = if deaths.is_empty() {
        vec![]
    } else {
        vec!["--fault", fault.as_str()]
    };
    let program = ["--", heat.as_str(), "200", "200", "2000"];
    UnderstudyCommand::new(work, &[&start[..], &fault, &program].concat())
        .run()
        .assert(0, &[]);
    UnderstudyCommand::new(work, &["report", "events", "-o", "report.html"])
        .run()
        .assert(0, &[]);
    let path = work.join("report.html");
    let text = std::fs::read_to_string(&path).expect("the page was written");
    (path, text)
}

fn count(text: &str, pattern: &str) -> usize {
    Regex::new(pattern)
        .expect("a pattern")
        .find_iter(text)
        .count()
}

/// Fails unless the page is one self-contained file with a text for each drawing.
fn assert_sound(text: &str, failures: usize) {
    assert_eq!(
        count(text, "(?:src|href)=|https?://|<script|@import|url\\("),
        0,
        "the page needs another file or a script"
    );
    assert!(
        text.contains("name=\"viewport\" content=\"width=device-width"),
        "no viewport"
    );
    assert_eq!(
        count(text, "<svg role=\"img\" aria-label=\"[^\"]+\""),
        count(text, "<svg role="),
        "a drawing has no text"
    );
    assert_eq!(count(text, "<h3>Recovery [0-9]"), failures);
    assert_eq!(text.contains("spare 0, then worker"), failures > 0);
    for fact in [
        "<dt>Command</dt>",
        "<dt>Started</dt>",
        "<dt>Exit status</dt><dd>0</dd>",
        "<dt>Hosts</dt>",
        "it stored all replicas",
    ] {
        assert!(text.contains(fact), "no {fact}");
    }
    assert_eq!(count(text, "<td[^>]*>SIGKILL</td>"), failures);
    assert_eq!(
        count(
            text,
            "<title>heat2d: finished, [0-9]+ failures?, 2[0-9-]+ [0-9:]+ UTC"
        ),
        1
    );
    assert!(text.contains("Size, of all workers together") && text.contains("(Daly)"));
}

#[test]
fn pages_of_jobs_show_their_events() {
    for deaths in [
        &[][..],
        &[(1, 4)],
        &[(0, 3), (1, 5), (2, 7), (3, 9), (4, 11)],
    ] {
        let work = tempfile::tempdir().expect("there is room for temporary files");
        let (path, text) = page(work.path(), deaths);
        assert_sound(&text, deaths.len());
        let words = match deaths.len() {
            0 => "No process failed.",
            1 => "One process failed. The job recovered once.",
            _ => "5 processes failed. The job recovered 5 times.",
        };
        assert!(text.contains(words), "no `{words}`");
        if is_thorough() {
            browse(&path, deaths.len());
        }
    }
}

/// Script of a page that reports its layout to the frame around it.
///
/// Posts the width of the content, the available width, the colour, and the number of loaded
/// resources.
const MEASURE: &str = "<script>onload = () => \
    parent.postMessage([document.documentElement.scrollWidth, \
    document.documentElement.clientWidth, getComputedStyle(document.body).backgroundColor, \
    performance.getEntriesByType('resource').length].join(' | '), '*')</script></body>";
const LIGHT: &str = "rgb(255, 255, 255)";
const DARK: &str = "rgb(13, 17, 23)";

/// Standard output of the browser for a page.
fn chromium(program: &Path, page: &Path, options: &[&str]) -> String {
    let output = Command::new(program)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--virtual-time-budget=5000",
        ])
        .args(options)
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .output()
        .expect("chromium runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Checks the display of a page on several devices.
///
/// The devices are a phone, a desktop, dark colours, and paper.
///
/// The pictures are kept if FFI_TESTS_PICTURES names a directory.
fn browse(path: &Path, failures: usize) {
    let Some(program) = paths::on_path("chromium") else {
        return skip(
            Requirement::Tools,
            "there is no chromium (Debian: apt-get install chromium), so no browser shows the page",
        );
    };
    let pictures = std::env::var_os("FFI_TESTS_PICTURES").map(PathBuf::from);
    let text = std::fs::read_to_string(path).expect("the page exists");
    let (inner, outer) = (
        path.with_file_name("inner.html"),
        path.with_file_name("outer.html"),
    );
    std::fs::write(&inner, text.replace("</body>", MEASURE)).expect("writable");
    let said =
        Regex::new(r"laid out: ([0-9]+) \| ([0-9]+) \| ([^|]*) \| ([0-9]+)<").expect("a pattern");
    for (name, width, scheme, colour) in [
        ("phone", 360, 1, LIGHT),
        ("desk", 1280, 1, LIGHT),
        ("dark", 1280, 0, DARK),
    ] {
        // A frame has exactly the given width, while a window has a minimum.
        let frame = format!(
            "<!DOCTYPE html><body style='margin:0'><p id=said></p><iframe src=inner.html \
             style='border:0;width:{width}px;height:3000px'></iframe><script>onmessage = event => \
             said.textContent = 'laid out: ' + event.data</script>"
        );
        std::fs::write(&outer, frame).expect("writable");
        let scheme = format!("--blink-settings=preferredColorScheme={scheme}");
        let dom = chromium(&program, &outer, &[&scheme, "--dump-dom"]);
        let found = said
            .captures(&dom)
            .unwrap_or_else(|| panic!("the browser shows nothing: {dom}"));
        assert_eq!(
            &found[1], &found[2],
            "{name}: the page must be scrolled sideways ({failures} failures)"
        );
        // A vertical scroll bar takes a few pixels.
        let room: u32 = found[2].parse().expect("a number");
        assert!(
            (width - 20..=width).contains(&room),
            "{room} instead of {width}"
        );
        assert_eq!(&found[3], colour, "{name}");
        assert_eq!(&found[4], "0", "the page has loaded another file");
        if let Some(pictures) = &pictures {
            let picture = pictures.join(format!("report-{failures}-{name}.png"));
            let size = format!("--window-size={},3100", width.max(500));
            chromium(
                &program,
                &outer,
                &[
                    &scheme,
                    &format!("--screenshot={}", picture.display()),
                    &size,
                ],
            );
            assert!(
                picture.metadata().is_ok_and(|file| file.len() > 10_000),
                "{}",
                picture.display()
            );
        }
    }
    let paper = pictures.unwrap_or_else(|| path.with_file_name(""));
    let paper = paper.join(format!("report-{failures}.pdf"));
    chromium(
        &program,
        path,
        &[
            "--no-pdf-header-footer",
            &format!("--print-to-pdf={}", paper.display()),
        ],
    );
    let printed = std::fs::read(&paper).expect("the page was printed");
    let sheets = count(&String::from_utf8_lossy(&printed), "/Type /Page[^s]");
    // One sheet each for the first and the last part, and at most one for each recovery.
    assert!((1..=3 + failures).contains(&sheets), "{sheets} sheets");
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_lost_job_reports_its_losses() {
    let work = tempfile::tempdir().expect("there is room for temporary files");
    let heat = paths::example("heat2d").to_string_lossy().into_owned();
    let fault = "pretend no-memfd; kill rank=0 at=commit.end epoch=4 delay=40ms; kill rank=1 \
        at=commit.end epoch=4 delay=40ms";
    let start = [
        "run",
        "-n",
        "3",
        "--spares",
        "2",
        "--interval",
        "0.05s",
        "--events",
        "events",
        "--fault",
        fault,
    ];
    let ran = UnderstudyCommand::new(
        work.path(),
        &[&start[..], &["--", &heat, "300", "300", "100000"]].concat(),
    )
    .run();
    ran.assert(75, &["cannot be recovered"]);
    let ran = UnderstudyCommand::new(work.path(), &["events", "events", "--summary"]).run();
    ran.assert(0, &[]);
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(
        text.contains("Outcome: status 75: ") && text.contains("2 processes failed"),
        "{text}"
    );
    let ran = UnderstudyCommand::new(work.path(), &["report", "events"]).run();
    ran.assert(0, &[]);
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(
        text.contains("the job cannot be recovered: worker "),
        "{text}"
    );
    assert!(text.contains("The job was lost (status 75)."));
}

/// Times of a recovery count from the failure of the process, and are equal everywhere.
#[test]
fn the_time_of_a_recovery_is_the_same_on_stderr_and_in_the_report() {
    let work = tempfile::tempdir().expect("there is room for temporary files");
    let heat = paths::example("heat2d").to_string_lossy().into_owned();
    let fault = "kill rank=1 at=call:1000";
    let start = "run -n 2 --spares 1 --interval 80calls --events events --fault";
    let start: Vec<&str> = start.split(' ').chain([fault, "--"]).collect();
    let program = [heat.as_str(), "200", "200", "2000"];
    let ran = UnderstudyCommand::new(work.path(), &[&start[..], &program].concat()).run();
    ran.assert(0, &[]);
    let printed_ms = number_in(&ran.stderr, "; resumed from .* after ([0-9.]+) ms");
    let events = ["events", "events", "--json"];
    let report = UnderstudyCommand::new(work.path(), &events).run();
    let report = String::from_utf8_lossy(&report.stdout).into_owned();
    let reported_ns = number_in(&report, "\"failure_to_resume_ns\": *([0-9]+)");
    assert_eq!(
        format!("{printed_ms:.1}"),
        format!("{:.1}", reported_ns / 1e6)
    );
}

/// Number that a pattern finds.
fn number_in(text: &str, pattern: &str) -> f64 {
    let found = Regex::new(pattern).expect("a pattern").captures(text);
    let found = found.unwrap_or_else(|| panic!("no {pattern} in\n{text}"));
    found[1].parse().expect("a number")
}

#[test]
fn no_page_without_events() {
    let work = tempfile::tempdir().expect("there is room for temporary files");
    UnderstudyCommand::new(work.path(), &["report", "."])
        .run()
        .assert(3, &["no event files"]);
}
