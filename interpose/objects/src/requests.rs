//! Requests of the program: virtual state, and the real requests.
//!
//! Each request of the program has a record in the table. At a cut, sends are complete by
//! construction and receives stay as records, which are posted once more after a rollback. Real
//! requests end with the library that has created them: none of them writes into the program's
//! memory after a rollback.

mod attached_buffer;
mod buffer;
mod ends;
mod interrupted_calls;
mod message_counts;
mod order;
mod partitions;
mod recipe_objects;
mod record;
mod request_borrows;
mod request_entries;
mod request_life;
mod request_recipe;
mod request_table;
mod starts;
pub mod synchronous;
mod synchronous_sends;

pub use attached_buffer::{Attached, Owner};
pub use buffer::{attached, buffers, buffers_mut, detach, flushed_by, taken, with_room};
pub use ends::{alone, each_alone, end, end_all};
pub use interrupted_calls::{begin, has_ended, resume};
pub use message_counts::{
    count_received, count_sent, count_started, init, next_partitioned, started,
};
pub use order::Requests;
pub use partitions::{are_ready, is_any_unready, open_partitions};
pub use recipe_objects::share;
pub use record::{EMPTY, Envelope, General, Kind, Mode, Outcome, Request, State, done};
pub use request_borrows::{table, table_mut};
pub use request_entries::{
    active, are_on, general, get, get_mut, index, indices, is_active, is_inactive, join, keep,
    keep_for, null_handle, real_of, recipe, release_real, set_real, set_state, until_reaped,
    with_real,
};
pub use request_life::{
    add, add_buffered, add_collective, add_done, add_duplicate, add_receive, add_recorded,
    add_send, finish_duplicate, free, remove, replace,
};
pub use request_recipe::{Argument, Identity, Recipe, partitioned};
pub(crate) use request_table::RequestTable;
pub use starts::{is_started, startable};
pub use synchronous_sends::Synchronous;
