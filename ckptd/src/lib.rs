//! Man pages of the programs `ckptd` and `understudy`.

pub mod manual;
