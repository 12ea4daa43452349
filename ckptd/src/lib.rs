//! Options and pages of the manual of the programs `ckptd` and `understudy`.

pub mod host_options;
pub mod manual;
