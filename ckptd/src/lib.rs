//! Command-line options and man pages of the programs `ckptd` and `understudy`.

pub mod host_options;
pub mod manual;
