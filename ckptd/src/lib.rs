//! Command-line options, settings and man pages of the programs `ckptd` and `understudy`.

pub mod host_options;
pub mod manual;
pub mod settings_environment;
