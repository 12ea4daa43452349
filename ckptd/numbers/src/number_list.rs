//! Lists of numbers that are encoded compactly.

use crate::{ProcessNumber, Worker};
use bincode::de::{BorrowDecoder, Decoder};
use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use bincode::{BorrowDecode, Decode, Encode};
use std::ops::Deref;

/// Elements of a [`NumberList`].
pub trait Number: Copy {
    fn new(number: u32) -> Self;
    fn number(self) -> u32;
}

impl Number for Worker {
    fn new(number: u32) -> Worker {
        Worker(number)
    }

    fn number(self) -> u32 {
        self.0
    }
}

impl Number for u32 {
    fn new(number: u32) -> u32 {
        number
    }

    fn number(self) -> u32 {
        self
    }
}

impl Number for ProcessNumber {
    fn new(number: u32) -> ProcessNumber {
        ProcessNumber(number)
    }

    fn number(self) -> u32 {
        self.0
    }
}

/// Numbers in any order.
///
/// The list is encoded as runs of equal distances: first number, distance and count. The list of
/// all workers, or of every n-th worker, has a constant size in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberList<T>(Vec<T>);

impl<T> Default for NumberList<T> {
    fn default() -> NumberList<T> {
        NumberList(Vec::new())
    }
}

/// Workers, in the order of their ranks in a group.
pub type WorkerList = NumberList<Worker>;

impl<T: Number> NumberList<T> {
    fn runs(&self) -> Vec<(u32, u32, u32)> {
        let mut runs: Vec<(u32, u32, u32)> = Vec::new();
        for number in self.0.iter().map(|element| element.number()) {
            match runs.last_mut() {
                Some((first, step, count @ 1)) => {
                    (*step, *count) = (number.wrapping_sub(*first), 2);
                }
                Some((first, step, count))
                    if first.wrapping_add(step.wrapping_mul(*count)) == number =>
                {
                    *count += 1;
                }
                _ => runs.push((number, 0, 1)),
            }
        }
        runs
    }
}

impl<T> From<Vec<T>> for NumberList<T> {
    fn from(numbers: Vec<T>) -> NumberList<T> {
        NumberList(numbers)
    }
}

impl<T> From<NumberList<T>> for Vec<T> {
    fn from(list: NumberList<T>) -> Vec<T> {
        list.0
    }
}

impl<T> FromIterator<T> for NumberList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(numbers: I) -> NumberList<T> {
        NumberList(numbers.into_iter().collect())
    }
}

impl<T> Deref for NumberList<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<'a, T> IntoIterator for &'a NumberList<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T: Number> Encode for NumberList<T> {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        self.runs().encode(encoder)
    }
}

impl<T: Number, Context> Decode<Context> for NumberList<T> {
    fn decode<D: Decoder<Context = Context>>(decoder: &mut D) -> Result<Self, DecodeError> {
        let runs = Vec::<(u32, u32, u32)>::decode(decoder)?;
        let mut numbers = Vec::new();
        for (first, step, count) in runs {
            decoder.claim_container_read::<T>(count as usize)?;
            let at = |index: u32| T::new(first.wrapping_add(step.wrapping_mul(index)));
            numbers.extend((0..count).map(at));
        }
        Ok(NumberList(numbers))
    }
}

impl<'de, T: Number, Context> BorrowDecode<'de, Context> for NumberList<T> {
    fn borrow_decode<D: BorrowDecoder<'de, Context = Context>>(
        decoder: &mut D,
    ) -> Result<Self, DecodeError> {
        Decode::decode(decoder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bincode::config::standard;

    /// Encodes and decodes a list; returns the number of bytes.
    fn encoded_bytes(workers: impl IntoIterator<Item = u32>) -> usize {
        let list: WorkerList = workers.into_iter().map(Worker).collect();
        let bytes = bincode::encode_to_vec(&list, standard()).unwrap();
        let decoded = bincode::decode_from_slice::<WorkerList, _>(&bytes, standard()).unwrap();
        assert_eq!(decoded, (list, bytes.len()));
        bytes.len()
    }

    #[test]
    fn lists_of_all_workers_or_every_nth_one_have_a_constant_size() {
        assert!(encoded_bytes(0..1_000_000) < 10);
        assert!(encoded_bytes((0..1_000_000).rev()) < 20);
        assert!(encoded_bytes((3..1_000_000).step_by(64)) < 10);
        assert!(encoded_bytes((0..500).chain(501..1_000_000)) < 20);
    }

    #[test]
    fn any_list_is_restored() {
        for list in [
            &[][..],
            &[7],
            &[u32::MAX, 0, 1],
            &[5, 5, 5, 5],
            &[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7],
            &[0, 1, 2, 10, 11, 12, 4, u32::MAX - 1, u32::MAX],
        ] {
            encoded_bytes(list.iter().copied());
        }
    }

    #[test]
    fn a_list_beyond_the_decoding_limit_is_refused() {
        let bytes = bincode::encode_to_vec(vec![(0u32, 1u32, u32::MAX)], standard()).unwrap();
        let limited = standard().with_limit::<1000>();
        assert!(bincode::decode_from_slice::<WorkerList, _>(&bytes, limited).is_err());
    }
}
