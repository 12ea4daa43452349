//! Lines on standard error.

/// Prints a line on standard error.
///
/// A closed or full standard error does not end this process, as `eprintln` would.
macro_rules! say {
    ($($text:tt)*) => {{
        // In one write: other processes write there, too.
        let line = format!("{}\n", format_args!($($text)*));
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    }};
}
