//! Info objects (MPI 4.1, chapter 10): keys and values in order, and their real objects.

mod info_entries;
mod info_pairs;

pub use info_entries::{
    ERR_INFO, adopt, create, free, get_mut, index, make, null_handle, pairs, rebuild, release_all,
};
pub use info_pairs::Info;
