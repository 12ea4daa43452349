//! A process fails at any moment: the job continues, or ends and reports why.

mod managers;
mod node;
mod recovery;
mod system_calls;
mod worker;
