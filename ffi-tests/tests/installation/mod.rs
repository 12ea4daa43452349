//! Installed files work from their place, in this and in other distributions.

mod distributions;
mod packaging;
