//! Files, input and output equal those of an undisturbed run.
//!
//! No byte is lost or written twice, whatever the program does with its files.

mod files;
mod full_directory;
mod input;
mod library_output;
mod mpi_files;
mod output;
mod outsiders;
mod removed;
