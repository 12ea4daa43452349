//! Types of numbers that this process adds itself, without the library.
#![allow(unsafe_code)]

use std::ffi::c_void;

/// Type of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberType {
    I32,
    I64,
    F32,
    F64,
}

impl NumberType {
    /// Adds a number to the number at `into`, which is first copied to `before`.
    ///
    /// # Safety
    /// `from` and `into` must point to numbers of this type, and `before`, if given, to memory for
    /// a number of this type.
    #[inline]
    pub unsafe fn add(self, from: *const c_void, into: *mut c_void, before: Option<*mut c_void>) {
        macro_rules! add {
            ($type:ty, $add:expr) => {{
                let (from, into) = (from.cast::<$type>(), into.cast::<$type>());
                // SAFETY: the caller passes addresses of numbers of this type, aligned or not.
                unsafe {
                    let (number, found) = (from.read_unaligned(), into.read_unaligned());
                    if let Some(before) = before {
                        before.cast::<$type>().write_unaligned(found);
                    }
                    into.write_unaligned($add(found, number));
                }
            }};
        }
        match self {
            NumberType::I32 => add!(i32, i32::wrapping_add),
            NumberType::I64 => add!(i64, i64::wrapping_add),
            NumberType::F32 => add!(f32, std::ops::Add::add),
            NumberType::F64 => add!(f64, std::ops::Add::add),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::NumberType;
    use std::ffi::c_void;

    fn sum<T: Copy>(kind: NumberType, from: T, mut into: T) -> (T, T) {
        let mut before = from;
        let address_of_before = (&raw mut before).cast();
        // SAFETY: numbers of this frame.
        unsafe {
            kind.add(
                (&raw const from).cast::<c_void>(),
                (&raw mut into).cast(),
                Some(address_of_before),
            )
        };
        (before, into)
    }

    #[test]
    fn sums_are_those_of_the_datatype() {
        assert_eq!(sum(NumberType::I32, i32::MAX, 1), (1, i32::MIN));
        assert_eq!(sum(NumberType::I64, u64::MAX, 3), (3, 2));
        assert_eq!(sum(NumberType::F32, 0.5_f32, -2.25), (-2.25, -1.75));
        assert_eq!(sum(NumberType::F64, 1e300, 1e-300), (1e-300, 1e300));
    }
}
