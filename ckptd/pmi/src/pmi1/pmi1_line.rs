//! Lines of PMI-1: `cmd=put kvsname=… key=… value=…`.
//!
//! A value ends at a space or at the end of the line; a backslash adds the following byte to the
//! value. Values are stored and sent as they were received, so that they need not be decoded.

/// A line without its terminator.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a>(pub &'a [u8]);

impl<'a> Line<'a> {
    /// Returns the fields in order, as name and value; the value is empty without `=`.
    pub fn fields(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let start = rest.iter().position(|&byte| byte != b' ')?;
            let field;
            (field, rest) = rest[start..].split_at(length(&rest[start..]));
            let equals = field.iter().position(|&byte| byte == b'=');
            Some(match equals {
                Some(equals) => (&field[..equals], &field[equals + 1..]),
                None => (field, &field[field.len()..]),
            })
        })
    }

    /// Returns the value of a field.
    pub fn get(self, name: &str) -> Option<&'a [u8]> {
        self.fields()
            .find(|(field, _)| *field == name.as_bytes())
            .map(|(_, value)| value)
    }

    /// Returns the value of a field as a number.
    pub fn number(self, name: &str) -> Option<i32> {
        str::from_utf8(self.get(name)?).ok()?.parse().ok()
    }

    /// Returns everything after `name=`, including spaces.
    pub fn rest(self, name: &str) -> Option<&'a [u8]> {
        let prefix = [b" ", name.as_bytes(), b"="].concat();
        let at = self
            .0
            .windows(prefix.len())
            .position(|window| window == prefix)?;
        Some(&self.0[at + prefix.len()..])
    }
}

/// Returns the length of a field, up to the space that ends it.
fn length(text: &[u8]) -> usize {
    let mut is_escaped = false;
    let end = text.iter().position(|&byte| {
        let is_end = byte == b' ' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    end.unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_apart() {
        let line = Line(br"cmd=put  key=a value=b\ c=d flag ");
        let fields: Vec<(&[u8], &[u8])> = line.fields().collect();
        let expected: [(&[u8], &[u8]); 4] = [
            (b"cmd", b"put"),
            (b"key", b"a"),
            (b"value", br"b\ c=d"),
            (b"flag", b""),
        ];
        assert_eq!(fields, expected);
        assert_eq!(line.get("flag"), Some(&b""[..]));
        assert_eq!(line.get("none"), None);
        assert_eq!(
            Line(b"cmd=abort exitcode=-3 message=a b").rest("message"),
            Some(&b"a b"[..])
        );
        assert_eq!(
            Line(b"cmd=abort exitcode=-3 message=a b").number("exitcode"),
            Some(-3)
        );
        assert_eq!(Line(b"x=99999999999").number("x"), None);
        assert_eq!(Line(b"").fields().count(), 0);
        assert_eq!(Line(br"a=\").get("a"), Some(&br"\"[..]));
    }
}
