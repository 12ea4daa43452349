//! Calls that open an object, or create it if no object has its name.
//!
//! Such a call does not report whether it has created the object. Two calls do: one that only
//! creates an object, and one that only opens an object.

const ENOENT: i32 = 2;
const EEXIST: i32 = 17;

/// Call of [`open_or_create`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Creates the object; fails with EEXIST if an object has the name.
    Create,
    /// Opens the object; fails with ENOENT if no object has the name.
    Open,
}

/// Creates or opens an object; returns its number, and true if it is new.
///
/// `call` makes the call, and returns its errno if it fails. Both calls are made again if another
/// process removes the object between them.
pub fn open_or_create(
    mut call: impl FnMut(Attempt) -> Result<i32, i32>,
) -> Result<(i32, bool), i32> {
    loop {
        match call(Attempt::Create) {
            Err(EEXIST) => {}
            result => return Ok((result?, true)),
        }
        match call(Attempt::Open) {
            Err(ENOENT) => {}
            result => return Ok((result?, false)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENOSPC: i32 = 28;

    /// Compares the result and the number of calls, which have the given results.
    fn check(results: &[Result<i32, i32>], expected: Result<(i32, bool), i32>) {
        let mut calls = 0;
        let found = open_or_create(|attempt| {
            calls += 1;
            let is_create = calls % 2 == 1;
            assert_eq!(attempt == Attempt::Create, is_create, "{results:?}");
            results[calls - 1]
        });
        assert_eq!((found, calls), (expected, results.len()), "{results:?}");
    }

    #[test]
    fn only_a_creating_call_makes_an_object_new() {
        check(&[Ok(3)], Ok((3, true)));
        check(&[Err(EEXIST), Ok(3)], Ok((3, false)));
        // Another process removes the object after the first call.
        check(&[Err(EEXIST), Err(ENOENT), Ok(4)], Ok((4, true)));
        // A second call could succeed and leave the new object unreported.
        check(&[Err(ENOSPC)], Err(ENOSPC));
        check(&[Err(EEXIST), Err(ENOSPC)], Err(ENOSPC));
    }
}
