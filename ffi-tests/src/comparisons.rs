//! Comparisons of an outcome with that of another run, in most cases without understudy.

use crate::outcome::Outcome;

/// Conversion of output before two runs are compared.
pub type Canonical = fn(&[u8]) -> Vec<u8>;

impl Outcome {
    /// Fails unless `workers` were replaced, and output and `files` equal those of `native`.
    ///
    /// The replacements must have the order of `workers`. Processes and files that the job leaves
    /// behind are failures as well.
    #[track_caller]
    pub fn assert_recovered(&self, native: &Outcome, files: &[&str], workers: &[u32]) {
        self.assert_recovered_after(native, files, <[u8]>::to_vec, workers);
    }

    /// Performs [`Outcome::assert_recovered`] with canonical output and files.
    #[track_caller]
    pub fn assert_recovered_after(
        &self,
        native: &Outcome,
        files: &[&str],
        canonical: Canonical,
        workers: &[u32],
    ) {
        self.assert_success();
        self.assert_like_after(native, files, canonical);
        self.assert_taken_over(workers);
        self.assert_nothing_left();
    }

    /// Performs [`Outcome::assert_recovered`] with all files, and with lines in any order.
    #[track_caller]
    pub fn assert_all_recovered(&self, native: &Outcome, workers: &[u32]) {
        self.assert_success();
        self.assert_same_lines(native);
        self.assert_same_files(native);
        self.assert_taken_over(workers);
        self.assert_nothing_left();
    }

    /// Fails if the transcript of a program of `check.h` has a failed check.
    #[track_caller]
    pub fn assert_checks(&self) {
        let has_failed = String::from_utf8_lossy(&self.stdout).contains("FAILED");
        self.check(!has_failed, "a check of the program has failed");
    }

    /// Number of lines in the first round of a program of `check.h`.
    pub fn first_round_lines(&self) -> usize {
        let text = String::from_utf8_lossy(&self.stdout);
        text.lines()
            .take_while(|line| !line.starts_with("round 1:"))
            .count()
    }

    /// Fails unless the working directory has the files of `native`, with equal content.
    #[track_caller]
    pub fn assert_same_files(&self, native: &Outcome) {
        let names = native.files();
        let found = self.files();
        self.check(
            found == names,
            &format!("the working directory has the files {found:?} instead of {names:?}"),
        );
        for name in names {
            let [own, other] = [self, native].map(|it| it.file(&name).unwrap_or_default());
            self.assert_equal_bytes(&name, &own, &other);
        }
    }

    /// Fails unless standard output and `files` equal those of `native`.
    #[track_caller]
    pub fn assert_like(&self, native: &Outcome, files: &[&str]) {
        self.assert_like_after(native, files, <[u8]>::to_vec);
    }

    /// Performs [`Outcome::assert_like`] with canonical output and files.
    #[track_caller]
    pub fn assert_like_after(&self, native: &Outcome, files: &[&str], canonical: Canonical) {
        self.assert_equal_bytes(
            "standard output",
            &canonical(&self.stdout),
            &canonical(&native.stdout),
        );
        for name in files {
            let (own, other) = (self.file(name), native.file(name));
            self.check(
                other.is_some(),
                &format!("the native run has written no {name}"),
            );
            self.check(own.is_some(), &format!("{name} is missing"));
            self.assert_equal_bytes(
                name,
                &canonical(&own.unwrap_or_default()),
                &canonical(&other.unwrap_or_default()),
            );
        }
    }

    /// Fails unless standard output has the lines of `native`, in any order.
    #[track_caller]
    pub fn assert_same_lines(&self, native: &Outcome) {
        self.assert_lines_times(1, native);
    }

    /// Fails unless standard output has each line of `native` `times` times, in any order.
    #[track_caller]
    pub fn assert_lines_times(&self, times: usize, native: &Outcome) {
        let sorted = |bytes: &[u8]| {
            let mut lines: Vec<&[u8]> = bytes.split_inclusive(|&byte| byte == b'\n').collect();
            lines.sort_unstable();
            lines.concat()
        };
        self.assert_equal_bytes(
            "standard output, sorted,",
            &sorted(&self.stdout),
            &sorted(&native.stdout.repeat(times)),
        );
    }

    #[track_caller]
    fn assert_equal_bytes(&self, what: &str, own: &[u8], native: &[u8]) {
        if own == native {
            return;
        }
        let at = own.iter().zip(native).take_while(|(a, b)| a == b).count();
        let around = |bytes: &[u8]| {
            let from = bytes[..at]
                .iter()
                .rposition(|&byte| byte == b'\n')
                .map_or(0, |newline| newline + 1);
            String::from_utf8_lossy(&bytes[from..bytes.len().min(at + 160)]).into_owned()
        };
        let line = own[..at].iter().filter(|&&byte| byte == b'\n').count() + 1;
        self.check(
            false,
            &format!(
                "{what} differs from the native run: {} bytes instead of {}, first at byte {at} \
                 (line {line})\n  got:    {:?}\n  native: {:?}",
                own.len(),
                native.len(),
                around(own),
                around(native)
            ),
        );
    }
}
