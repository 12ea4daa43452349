//! Programs that cannot be protected are refused or run unprotected, with one clear line.

mod inert;
mod memory_limits;
mod nested;
mod not_preloaded;
mod refusals;
mod refused_programs;
mod wrappers;
