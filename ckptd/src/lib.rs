//! Pages of the manual of the programs `ckptd` and `understudy`.

pub mod manual;
