//! Sets of System V semaphores (semctl(2)).
#![allow(unsafe_code)]

use super::kernel_object::{ObjectAccess, ObjectState, found, is_other, outcome};
use std::io;

// Commands of semctl(2).
const GETPID: i32 = 11;
const GETALL: i32 = 13;
const GETNCNT: i32 = 14;
const GETZCNT: i32 = 15;
const SETVAL: i32 = 16;

/// Values of a set.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Set {
    values: Vec<u16>,
    /// True for each semaphore that has been used.
    is_used: Vec<bool>,
}

/// Calls semctl(2) for one semaphore, without a pointer.
fn control(real: i32, semaphore: usize, command: i32, value: i32) -> io::Result<i32> {
    // SAFETY: these commands take at most a number.
    outcome(unsafe { libc::semctl(real, semaphore as i32, command, value) })
}

fn about(real: i32) -> io::Result<libc::semid_ds> {
    // SAFETY: semctl(2) fills a structure of this function.
    unsafe {
        let mut about: libc::semid_ds = std::mem::zeroed();
        outcome(libc::semctl(real, 0, libc::IPC_STAT, &raw mut about))?;
        Ok(about)
    }
}

pub(super) fn read(real: i32) -> io::Result<ObjectState<Set>> {
    let about = about(real)?;
    let count = about.sem_nsems as usize;
    let mut values = vec![0u16; count];
    // SAFETY: semctl(2) writes one value for each semaphore of the set.
    outcome(unsafe { libc::semctl(real, 0, GETALL, values.as_mut_ptr()) })?;
    let mut is_used = Vec::with_capacity(count);
    let mut is_foreign = false;
    for semaphore in 0..count {
        let user = control(real, semaphore, GETPID, 0)?;
        let waiting = control(real, semaphore, GETNCNT, 0)? + control(real, semaphore, GETZCNT, 0)?;
        is_foreign |= is_other(user) || waiting > 0;
        is_used.push(user != 0);
    }
    Ok(ObjectState {
        access: ObjectAccess::from_permissions(&about.sem_perm),
        content: Set { values, is_used },
        is_foreign,
    })
}

impl Set {
    /// Sets the permissions; false if the set does not exist.
    ///
    /// A set with another key or size counts as missing.
    pub(super) fn reset(&self, real: i32, access: &ObjectAccess) -> io::Result<bool> {
        let is_it = |about: libc::semid_ds| {
            access.has_key_of(&about.sem_perm) && about.sem_nsems as usize == self.values.len()
        };
        if !found(about(real))?.is_some_and(is_it) {
            return Ok(false);
        }
        // SAFETY: semctl(2) reads a structure of this function.
        let set = unsafe {
            let mut about: libc::semid_ds = std::mem::zeroed();
            access.write_to(&mut about.sem_perm);
            outcome(libc::semctl(real, 0, libc::IPC_SET, &raw mut about))
        };
        Ok(found(set)?.is_some())
    }

    /// Creates a set whose values are zero.
    pub(super) fn create(&self, access: &ObjectAccess) -> io::Result<i32> {
        // SAFETY: semget(2) accesses no memory.
        let real =
            outcome(unsafe { libc::semget(access.key, self.values.len() as i32, access.flags()) })?;
        self.reset(real, access).map(|_| real)
    }

    /// Sets the values.
    ///
    /// This process becomes the last user of each semaphore that was ever used.
    pub(super) fn write(&self, real: i32) -> io::Result<()> {
        for (semaphore, (value, is_used)) in self.values.iter().zip(&self.is_used).enumerate() {
            if *is_used || control(real, semaphore, GETPID, 0)? != 0 {
                control(real, semaphore, SETVAL, i32::from(*value))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user::system_v::kernel_object::remove;
    use understudy_abi::system_v::SEMAPHORES;

    #[test]
    fn values_are_read_and_set_in_the_same_set_and_in_a_new_one() {
        let empty = Set {
            values: vec![0; 3],
            is_used: vec![false; 3],
        };
        let access = ObjectAccess::of_tests();
        let real = empty.create(&access).expect("semget(2)");
        control(real, 1, SETVAL, 7).expect("semctl(2)");
        let read_set = |real| match read(real).expect("semctl(2)") {
            ObjectState {
                content: set,
                is_foreign: false,
                ..
            } => set,
            _ => panic!("the set is this process's"),
        };
        let set = read_set(real);
        assert_eq!(
            (&set.values[..], &set.is_used[..]),
            (&[0, 7, 0][..], &[false, true, false][..])
        );
        control(real, 1, SETVAL, 9).expect("semctl(2)");
        control(real, 2, SETVAL, 4).expect("semctl(2)");
        assert!(set.reset(real, &access).expect("semctl(2)"));
        set.write(real).expect("semctl(2)");
        assert_eq!(read_set(real).values, [0, 7, 0]);
        remove(SEMAPHORES, real).expect("semctl(2)");
        assert!(!set.reset(real, &access).expect("semctl(2)"));
        let new = set.create(&access).expect("semget(2)");
        set.write(new).expect("semctl(2)");
        assert_eq!(read_set(new), set);
        remove(SEMAPHORES, new).expect("semctl(2)");
    }
}
