//! A failure during a recovery, or after the last spare was used: another recovery follows.

mod kill_twice;
mod replenish;
