//! Error classes and codes that the program has added (MPI 4.1, 9.5).

use std::ffi::c_int;

/// `MPI_ERR_LASTCODE`, the greatest predefined code.
pub const LAST_PREDEFINED: c_int = 92;

/// Error classes and codes that the program has added (9.5).
///
/// The first one follows `MPI_ERR_LASTCODE`.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct ErrorCodes {
    added: Vec<ErrorCode>,
    /// Positions of removed entries, whose numbers are reused.
    free: Vec<u32>,
}

/// Added class or code.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub(super) struct ErrorCode {
    /// Class of the code; the class of a class is itself.
    class: i32,
    text: Vec<u8>,
    /// Number of codes of a class, without the class itself.
    codes: u32,
    is_removed: bool,
}

impl ErrorCodes {
    pub const NONE: ErrorCodes = ErrorCodes {
        added: Vec::new(),
        free: Vec::new(),
    };

    fn position(code: c_int) -> Option<usize> {
        usize::try_from(code.checked_sub(LAST_PREDEFINED + 1)?).ok()
    }

    fn entry(&self, code: c_int) -> Option<&ErrorCode> {
        let entry = self.added.get(Self::position(code)?)?;
        (!entry.is_removed).then_some(entry)
    }

    fn entry_mut(&mut self, code: c_int) -> Option<&mut ErrorCode> {
        let entry = self.added.get_mut(Self::position(code)?)?;
        (!entry.is_removed).then_some(entry)
    }

    /// Adds a code of a class; without a class, the code is a class.
    fn add(&mut self, class: Option<c_int>) -> c_int {
        let position = self
            .free
            .pop()
            .map_or(self.added.len(), |position| position as usize);
        let code = LAST_PREDEFINED + 1 + position as c_int;
        let new = ErrorCode {
            class: class.unwrap_or(code),
            text: Vec::new(),
            codes: 0,
            is_removed: false,
        };
        match self.added.get_mut(position) {
            Some(old) => *old = new,
            None => self.added.push(new),
        }
        code
    }

    /// Returns the greatest code that has been in use (`MPI_LASTUSEDCODE`).
    pub fn last_used(&self) -> c_int {
        LAST_PREDEFINED + self.added.len() as c_int
    }

    pub fn add_class(&mut self) -> c_int {
        self.add(None)
    }

    /// Adds a code of a class; `None` if the class does not exist.
    pub fn add_code(&mut self, class: c_int) -> Option<c_int> {
        let known = (0..=LAST_PREDEFINED).contains(&class) || self.class(class) == Some(class);
        if !known {
            return None;
        }
        if let Some(class) = self.entry_mut(class) {
            class.codes += 1;
        }
        Some(self.add(Some(class)))
    }

    /// Sets the text of a code; returns false if the code was not added.
    pub fn set_text(&mut self, code: c_int, text: &[u8]) -> bool {
        let entry = self.entry_mut(code);
        entry.map(|entry| entry.text = text.to_vec()).is_some()
    }

    /// Removes the text of a code; returns false if it had none.
    pub fn remove_text(&mut self, code: c_int) -> bool {
        let text = self
            .entry_mut(code)
            .map(|entry| std::mem::take(&mut entry.text));
        text.is_some_and(|text| !text.is_empty())
    }

    /// Removes an added class without codes and text; returns false otherwise.
    pub fn remove_class(&mut self, class: c_int) -> bool {
        let is_empty = self
            .entry(class)
            .is_some_and(|entry| entry.class == class && entry.codes == 0);
        is_empty && self.remove(class)
    }

    /// Removes an added code without text; returns false otherwise.
    pub fn remove_code(&mut self, code: c_int) -> bool {
        let Some(class) = self.class(code).filter(|&class| class != code) else {
            return false;
        };
        let is_removed = self.remove(code);
        if let Some(class) = self.entry_mut(class).filter(|_| is_removed) {
            class.codes -= 1;
        }
        is_removed
    }

    fn remove(&mut self, code: c_int) -> bool {
        let entry = self.entry_mut(code).filter(|entry| entry.text.is_empty());
        let is_removed = entry.map(|entry| entry.is_removed = true).is_some();
        if let Some(position) = Self::position(code).filter(|_| is_removed) {
            self.free.push(position as u32);
        }
        is_removed
    }

    /// Returns the class of an added code.
    pub fn class(&self, code: c_int) -> Option<c_int> {
        Some(self.entry(code)?.class)
    }

    /// Returns the text of an added code; empty if none was set.
    pub fn text(&self, code: c_int) -> Option<&[u8]> {
        Some(&self.entry(code)?.text)
    }
}

#[cfg(test)]
mod tests {
    use super::{ErrorCodes, LAST_PREDEFINED};

    #[test]
    fn codes_follow_the_predefined_ones() {
        let mut codes = ErrorCodes::default();
        assert_eq!(codes.last_used(), LAST_PREDEFINED);
        assert_eq!(
            (codes.add_class(), codes.add_code(93), codes.add_code(3)),
            (93, Some(94), Some(95))
        );
        assert_eq!(
            (codes.class(93), codes.class(94), codes.class(95)),
            (Some(93), Some(93), Some(3))
        );
        assert_eq!(codes.last_used(), 95);
    }

    #[test]
    fn only_classes_have_codes_and_only_added_codes_get_texts() {
        let mut codes = ErrorCodes::default();
        assert_eq!(
            (codes.add_code(93), codes.add_code(-1), codes.class(92)),
            (None, None, None)
        );
        assert_eq!(
            (codes.add_class(), codes.add_code(93), codes.add_code(94)),
            (93, Some(94), None)
        );
        assert!(codes.set_text(94, b"late"));
        assert!(
            !codes.set_text(95, b"") && !codes.set_text(92, b"") && !codes.set_text(i32::MIN, b"")
        );
        assert_eq!(
            (codes.text(93), codes.text(94)),
            (Some(&b""[..]), Some(&b"late"[..]))
        );
    }

    #[test]
    fn codes_in_use_and_predefined_codes_cannot_be_removed() {
        let mut codes = ErrorCodes::default();
        let (class, code) = (
            codes.add_class(),
            codes.add_code(93).expect("a code of the class"),
        );
        assert!(codes.set_text(code, b"text"));
        assert!(
            !codes.remove_class(class) && !codes.remove_code(code) && !codes.remove_code(class)
        );
        assert!(codes.remove_text(code) && !codes.remove_text(code));
        assert!(
            codes.remove_code(code) && !codes.remove_code(code) && !codes.set_text(code, b"text")
        );
        assert!(
            codes.remove_class(class)
                && !codes.remove_class(class)
                && codes.add_code(class).is_none()
        );
        assert!(!codes.remove_class(0) && !codes.remove_code(3) && !codes.remove_text(3));
        // Numbers are reused, since the table would otherwise grow without bound.
        assert_eq!((codes.add_class(), codes.last_used()), (93, 94));
    }
}
