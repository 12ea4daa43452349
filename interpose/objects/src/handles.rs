//! Virtual handles, which the program sees, and their translation to real handles.
//!
//! The handle of a predefined object is the address of its data symbol on the program side; the
//! runtime writes a tag and an index into the symbol. The handle of a created object is an address
//! in a range that is never mapped:
//!
//! ```text
//!   0x1e00_0000_0000 + kind·2³² + index·16
//! ```
//!
//! Both kinds of virtual handles are equal in all ranks, and stay valid when a replacement takes
//! over. The real handles of created objects are in one array for each kind of object, those of
//! predefined objects in one array together.

mod handle_table;
mod real_handles;
mod virtual_handles;

pub(crate) use handle_table::HandleTable;
pub use real_handles::{
    cache_number, cached_number, connect, predefined_handle, predefined_of, real_comm,
    real_datatype, real_errhandler, real_file, real_group, real_info, real_message, real_op,
    real_request, real_session, real_win, set_predefined, set_real, write_symbol_tags,
};
pub use virtual_handles::{
    DenotedObject, VirtComm, VirtDatatype, VirtErrhandler, VirtFile, VirtGroup, VirtInfo,
    VirtMessage, VirtOp, VirtRequest, VirtSession, VirtWin, created_index, denoted_object,
    symbol_index, virtual_handle,
};
