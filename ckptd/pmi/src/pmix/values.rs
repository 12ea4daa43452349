//! Lists of keys and values for libpmix, which own the data that they point to.
#![allow(unsafe_code)]

use super::abi::{Array, Bytes, Data, Info, KEY_SIZE, Type, Value};
use std::ffi::{CStr, CString, c_char};

/// A list of keys with their values (`pmix_info_t[]`).
#[derive(Default)]
pub struct Infos {
    infos: Vec<Info>,
    // Targets of the pointers in `infos`. Moving these vectors does not move the targets.
    strings: Vec<CString>,
    #[expect(
        clippy::vec_box,
        reason = "values point to the arrays, which must not move"
    )]
    arrays: Vec<Box<Array>>,
    nested: Vec<Infos>,
}

impl Infos {
    pub fn new() -> Infos {
        Infos::default()
    }

    fn push(&mut self, key: &str, of: Type, data: Data) {
        let value = Value { of, data };
        self.infos.push(Info {
            key: key_of(key),
            flags: 0,
            value,
        });
    }

    pub fn flag(&mut self, key: &str, flag: bool) {
        self.push(key, Type::BOOL, Data { flag });
    }

    pub fn uint16(&mut self, key: &str, uint16: u16) {
        self.push(key, Type::UINT16, Data { uint16 });
    }

    pub fn uint32(&mut self, key: &str, uint32: u32) {
        self.push(key, Type::UINT32, Data { uint32 });
    }

    pub fn rank(&mut self, key: &str, uint32: u32) {
        self.push(key, Type::PROC_RANK, Data { uint32 });
    }

    /// Adds a text, which is cut at its first zero.
    pub fn string(&mut self, key: &str, text: &[u8]) {
        let end = text
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(text.len());
        let text = CString::new(&text[..end]).unwrap_or_default();
        let string = text.as_ptr().cast_mut();
        self.strings.push(text);
        self.push(key, Type::STRING, Data { string });
    }

    /// Adds a list of keys and values as a value.
    pub fn list(&mut self, key: &str, list: Infos) {
        self.nested.push(list);
        let list = &self.nested[self.nested.len() - 1].infos;
        let mut array = Box::new(Array {
            of: Type::INFO,
            size: list.len(),
            start: list.as_ptr().cast_mut().cast(),
        });
        let array_at: *mut Array = &mut *array;
        self.arrays.push(array);
        self.push(key, Type::DATA_ARRAY, Data { array: array_at });
    }

    /// Returns a pointer for functions that only read the list.
    pub fn as_mut_ptr(&mut self) -> *mut Info {
        self.infos.as_mut_ptr()
    }

    pub fn len(&self) -> usize {
        self.infos.len()
    }
}

/// Returns a key, cut to the size of the field.
pub fn key_of(key: &str) -> [c_char; KEY_SIZE] {
    fixed(key)
}

/// Returns a text in a field of zeros, cut to the size of the field.
pub fn fixed<const SIZE: usize>(text: &str) -> [c_char; SIZE] {
    let mut field = [0; SIZE];
    for (to, from) in field[..SIZE - 1].iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
    field
}

/// Returns the text in a field, if it is UTF-8.
pub fn text_in(field: &[c_char]) -> Option<&str> {
    // SAFETY: c_char and u8 have the same size, alignment and values.
    let bytes = unsafe { std::slice::from_raw_parts(field.as_ptr().cast::<u8>(), field.len()) };
    CStr::from_bytes_until_nul(bytes).ok()?.to_str().ok()
}

/// Copy of a published value, for the types that MPI libraries publish.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PublishedValue {
    Text(CString),
    Bytes(Vec<u8>),
    Number(u32),
}

impl PublishedValue {
    /// # Safety
    /// `value` was created by libpmix: its pointers fit its type.
    pub unsafe fn copy(value: &Value) -> Option<PublishedValue> {
        // SAFETY: the type says which member of the union is valid; strings end with a zero, and
        // byte objects have the given size.
        unsafe {
            match value.of {
                Type::STRING if !value.data.string.is_null() => Some(PublishedValue::Text(
                    CStr::from_ptr(value.data.string).to_owned(),
                )),
                Type::BYTE_OBJECT => Some(PublishedValue::Bytes(bytes_at(
                    value.data.bytes.start,
                    value.data.bytes.size,
                ))),
                Type::UINT32 => Some(PublishedValue::Number(value.data.uint32)),
                _ => None,
            }
        }
    }

    /// Returns a value for libpmix that borrows the data of `self`.
    pub fn borrowed(&self) -> Value {
        match self {
            PublishedValue::Text(text) => Value {
                of: Type::STRING,
                data: Data {
                    string: text.as_ptr().cast_mut(),
                },
            },
            PublishedValue::Bytes(bytes) => Value {
                of: Type::BYTE_OBJECT,
                data: Data {
                    bytes: Bytes {
                        start: bytes.as_ptr().cast_mut().cast(),
                        size: bytes.len(),
                    },
                },
            },
            PublishedValue::Number(uint32) => Value {
                of: Type::UINT32,
                data: Data { uint32: *uint32 },
            },
        }
    }
}

/// Returns a copy of `size` bytes; empty for a null pointer.
///
/// # Safety
/// `start` is null, or `size` bytes are readable at `start`.
pub unsafe fn bytes_at(start: *const c_char, size: usize) -> Vec<u8> {
    match start.is_null() {
        true => Vec::new(),
        // SAFETY: `start` is not null, so `size` bytes are readable there (guaranteed by the
        // caller).
        false => unsafe { std::slice::from_raw_parts(start.cast::<u8>(), size) }.to_vec(),
    }
}

/// Returns a copy of a list of strings that ends with a null pointer.
///
/// # Safety
/// `list` is null, or points to an array of C strings that ends with a null pointer.
pub unsafe fn texts(mut list: *mut *mut c_char) -> Vec<String> {
    let mut texts = Vec::new();
    // SAFETY: the caller guarantees that the list is valid; it is not read past its end.
    unsafe {
        while !list.is_null() && !(*list).is_null() {
            texts.push(CStr::from_ptr(*list).to_string_lossy().into_owned());
            list = list.add(1);
        }
    }
    texts
}

/// Returns `count` elements as a slice; empty for a null pointer.
///
/// # Safety
/// `first` is null, or points to `count` initialised elements that outlive `'a`.
pub unsafe fn slice<'a, T>(first: *const T, count: usize) -> &'a [T] {
    match first.is_null() {
        true => &[],
        // SAFETY: `first` is not null, so it points to `count` elements that outlive `'a`
        // (guaranteed by the caller).
        false => unsafe { std::slice::from_raw_parts(first, count) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_what_they_point_to() {
        let mut inner = Infos::new();
        inner.rank("pmix.rank", 3);
        inner.string("pmix.hname", b"node\0cut");
        let mut outer = Infos::new();
        outer.list("pmix.pdata", inner);
        outer.flag("pmix.ndosub", true);
        let mut moved = Box::new(outer);
        // SAFETY: `moved` has two elements, and owns the data that they point to.
        unsafe {
            let infos = std::slice::from_raw_parts(moved.as_mut_ptr(), moved.len());
            let array = &*infos[0].value.data.array;
            let nested = std::slice::from_raw_parts(array.start.cast::<Info>(), array.size);
            assert_eq!(text_in(&nested[1].key), Some("pmix.hname"));
            assert_eq!(nested[0].value.data.uint32, 3);
            assert_eq!(CStr::from_ptr(nested[1].value.data.string), c"node");
            assert!(infos[1].value.data.flag);
        }
    }

    #[test]
    fn fields_are_cut_and_published_values_copied() {
        assert_eq!(text_in(&fixed::<4>("abcdef")), Some("abc"));
        assert_eq!(text_in(&[b'a' as c_char; 4]), None);
        for value in [
            PublishedValue::Text(c"port".into()),
            PublishedValue::Bytes(vec![0, 1]),
            PublishedValue::Number(7),
        ] {
            // SAFETY: the pointers in the result of `borrowed` fit its type.
            let copied = unsafe { PublishedValue::copy(&value.borrowed()) };
            assert_eq!(copied, Some(value));
        }
    }
}
