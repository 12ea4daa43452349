//! Messages to the user: one line on standard error, without allocation.

use crate::sys::{nr, sys};
use core::fmt::{self, Display, Write};

/// Text in a fixed buffer; excess text is cut off.
pub struct Line {
    text: [u8; 1024],
    length: usize,
}

impl Line {
    pub const fn new() -> Line {
        Line {
            text: [0; 1024],
            length: 0,
        }
    }

    /// Ends the line with a newline, which replaces the last byte of a full buffer.
    fn end(&mut self) {
        self.length = self.length.min(self.text.len() - 1);
        self.text[self.length] = b'\n';
        self.length += 1;
    }

    /// Returns the text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let available = self.text.len() - self.length;
        let count = text.len().min(available);
        self.text[self.length..self.length + count].copy_from_slice(&text.as_bytes()[..count]);
        self.length += count;
        Ok(())
    }
}

/// Bytes printed as text; bytes that are not ASCII are printed as `?`.
#[derive(Clone, Copy)]
pub struct Text<'a>(pub &'a [u8]);

impl Display for Text<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|&byte| out.write_char(if byte.is_ascii() { byte as char } else { '?' }))
    }
}

/// Writes `understudy: …` as one line to standard error with one write(2).
#[allow(unsafe_code)]
pub fn print(message: &dyn Display) {
    let mut line = Line::new();
    let _ = write!(line, "understudy: {message}");
    line.end();
    let bytes = line.as_bytes();
    // SAFETY: the buffer is valid for its length. A failure is ignored, since no other place exists
    // for the message.
    unsafe { sys!(nr::WRITE, 2, bytes.as_ptr(), bytes.len()) };
}
