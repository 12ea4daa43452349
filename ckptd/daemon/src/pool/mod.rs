//! Pools of spares: a state machine without sockets, clock and threads.
//!
//! Each *job* of the daemon has one pool. Spares register ([`Pools::register`]), send beats
//! ([`Pools::beat`]), and are *leased* for failed workers ([`Pools::lease`]). A lease is confirmed
//! when its spare reports that it has taken over ([`Pools::took_over`]), which removes the spare
//! from the pool. An unconfirmed lease ends with the next round of leases, at its time limit, or
//! when it is given back.
//!
//! The rounds of leases of a job have increasing numbers. A repeated request of a round receives
//! the same answer, and a request of an earlier round is refused. Every ticket and lease has a
//! token that is never used twice. So late, repeated or reordered requests cannot lease a spare
//! twice.
//!
//! Time is passed in: `now` is the time since a fixed moment and never decreases. Nothing happens
//! by itself; [`Pools::tick`] performs the actions that are due. Changes are returned as
//! [`PoolChange`]s.
//!
//! The module makes no assumptions about the start of ranks or the number of launchers.

mod job_pool;
mod lease;
mod pool_change;
mod pools;
mod rules;

pub use job_pool::{JobPool, SpareView};
pub use pool_change::PoolChange;
pub use pools::Pools;
pub use rules::{JobKey, Rules};
