//! Requests of the program: virtual state, and the real requests.
//!
//! Each request of the program has a record in the table, which is saved at a cut. At a cut the
//! library has completed all sends, since their messages have been drained. For the program, a
//! synchronous send is incomplete until a receive has matched the message ([`synchronous`]).
//! Receives may be incomplete, and are posted once more after a rollback. A real request ends with
//! the MPI instance in which it was created, so no real request writes into the program's memory
//! after a rollback.

mod attached_buffer;
mod buffered_sends;
mod completion_fast_path;
mod interrupted_calls;
mod message_counts;
mod partitions;
mod recipe_objects;
mod request;
mod request_borrows;
mod request_entries;
mod request_life;
mod request_recipe;
mod request_table;
mod requests_by_age;
mod start_fast_path;
pub mod synchronous;
mod synchronous_sends;
mod worker_counts;

pub use attached_buffer::{AttachedBuffer, BufferOwner, BufferUse};
pub use buffered_sends::{
    attached, buffer_with_room, buffers, buffers_mut, detach, flushed_by, used_bytes,
};
pub use completion_fast_path::{all_completable, completable, complete_all, complete_one};
pub use interrupted_calls::{clear_call, record_call, resume};
pub use message_counts::{
    count_received, count_sent, count_started, init, is_cancelled_by_library, next_partitioned,
    record_cancellation, restart_counts, sum_of_started,
};
pub use partitions::{has_unready, record_ready, record_start};
pub use recipe_objects::share;
pub use request::{
    EMPTY_STATUS, GeneralizedFunctions, MessageArguments, Request, RequestKind, RequestOutcome,
    RequestState, SavedStatus, SendMode, done_state,
};
pub use request_borrows::{table, table_mut};
pub use request_entries::{
    active, general, get, get_mut, has_requests_on, index, indices, is_active, is_inactive, keep,
    keep_for, null_handle, real_of, recipe, release_real, set_companion, set_real, set_state,
    until_reaped, with_real,
};
pub use request_life::{
    add, add_buffered, add_collective, add_done, add_duplicate, add_receive, add_recorded,
    add_send, finish_duplicate, free, remove, replace,
};
pub use request_recipe::{Argument, RequestIdentity, RequestRecipe, partitioned_identity};
pub(crate) use request_table::RequestTable;
pub use requests_by_age::Requests;
pub use start_fast_path::{record_started, startable};
pub use synchronous_sends::SynchronousSend;
