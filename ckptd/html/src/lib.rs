//! Pages and figures of the tools: reports on jobs and acceptances, and figures of simulations.

mod acceptance_page;
mod advice;
mod chart;
mod charts;
mod clock;
mod document;
mod facts;
mod journals;
mod replay_row;
mod report_page;
mod segments;
mod simulation_figure;
mod story;
mod survival;
mod timeline;

pub use acceptance_page::{
    Acceptance, AcceptanceRow, AcceptanceSection, RowVerdict, acceptance_page,
};
pub use clock::date_and_time;
pub use facts::Facts;
pub use report_page::report_page;
pub use simulation_figure::simulation_figure;
