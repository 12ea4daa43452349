//! The tools report the truth about jobs; documents and messages agree with the code.

mod accept;
mod doctor;
mod messages;
mod promise;
mod report;
mod scheduling;
mod settings_files;
mod status;
mod warn;
