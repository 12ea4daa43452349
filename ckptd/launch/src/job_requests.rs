//! Requests of the user's commands to a running job of this node.

use crate::job_directory::directory_of;
use std::io;
use std::time::{Duration, Instant};
use understudy_formats::private_directories::PrivateDirectory;
use understudy_wire::line::{
    Hello, Line, LineSocket, ProcessActivity, ReplaceAnswer, ReplaceTarget,
};

/// Time limit for the answer of a manager, which may have to ask the leader.
const MANAGER_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for the answers of all guardians.
const GUARDIAN_TIMEOUT: Duration = Duration::from_secs(3);

/// Requests the replacement of processes; returns the name of the host.
///
/// # Errors
/// Fails if the job's manager does not answer, or with the reason of a refusal.
pub fn replace(job: &str, target: ReplaceTarget) -> io::Result<String> {
    let line = Line::connect(&directory_of(job), LineSocket::Manager)?;
    line.send(&Hello::Replace(target.clone()))?;
    // A drained host is free only after a checkpoint, which may take any time.
    let limit = (!matches!(target, ReplaceTarget::DrainedHost(_))).then_some(MANAGER_TIMEOUT);
    let answer: Option<Vec<u8>> = line.receive(limit)?;
    let answer = answer.ok_or_else(|| {
        let text = format!("its manager has not answered for {MANAGER_TIMEOUT:?}");
        io::Error::new(io::ErrorKind::TimedOut, text)
    })?;
    let decoded = bincode::decode_from_slice(&answer, bincode::config::standard());
    let (answer, _): (ReplaceAnswer, _) = decoded.map_err(io::Error::other)?;
    answer.map_err(io::Error::other)
}

/// Activities of the ranks of a job on this node.
#[derive(Debug, Default)]
pub struct JobActivities {
    /// Activities, in the order of the ranks.
    pub ranks: Vec<ProcessActivity>,
    /// Guardians that have not answered.
    pub silent_guardians: Vec<u32>,
}

/// Asks all guardians of this node for the activities of their ranks.
///
/// # Errors
/// Fails if the job's directory cannot be opened.
pub fn activities(job: &str) -> io::Result<JobActivities> {
    let path = directory_of(job);
    let directory = PrivateDirectory::open(&path)?.ok_or(io::ErrorKind::NotFound)?;
    let names = directory.names().into_iter();
    let guardians = names.filter_map(|name| LineSocket::guardian_of(name.to_str()?));
    let mut found = JobActivities::default();
    let ask = |guardian| {
        let line = Line::connect(&path, LineSocket::Guardian(guardian)).ok()?;
        line.send(&Hello::ReadActivities).ok()?;
        Some((guardian, line))
    };
    let asked: Vec<_> = guardians.filter_map(ask).collect();
    let deadline = Instant::now() + GUARDIAN_TIMEOUT;
    for (guardian, line) in asked {
        let left = deadline.saturating_duration_since(Instant::now());
        match line.receive::<Vec<ProcessActivity>>(left) {
            Ok(Some(ranks)) => found.ranks.extend(ranks),
            // The guardian has exited.
            Err(_) => {}
            Ok(None) => found.silent_guardians.push(guardian.0),
        }
    }
    found.ranks.sort_by_key(|rank| rank.number);
    Ok(found)
}
