//! The manager of a job: its leader, and its node.

use super::Error;
use super::leader::Leader;
use super::node::Node;
use crate::line::Listener;
use crate::private::Directory;
use std::ffi::OsStr;
use std::path::Path;

/// Manages the job that has this directory, until its guardians have gone.
///
/// # Errors
/// If nobody can call, for want of a descriptor.
pub fn manage(listener: Listener, directory: &Path) -> Result<(), Error> {
    let mut node = Node::new(listener, directory)?;
    let mut leader = Leader::new();
    while !node.is_deserted() {
        node.wait(leader.limit());
        node.attend();
        leader.tick();
        exchange(&mut leader, &mut node);
    }
    drop(node);
    remove(directory);
    Ok(())
}

/// Until neither has anything to tell the other.
fn exchange(leader: &mut Leader, node: &mut Node) {
    loop {
        let reports = node.take_reports();
        reports.into_iter().for_each(|report| leader.hear(report));
        let orders = leader.take_orders();
        if orders.is_empty() {
            return;
        }
        orders.into_iter().for_each(|order| node.obey(order));
    }
}

/// Removes what the job has left on this node.
fn remove(directory: &Path) {
    let name = directory.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let name = name.trim_start_matches("understudy-").trim_end_matches("-launch");
    for left in crate::remains::of_job(name) {
        let _ = left.remove();
    }
    let above = directory
        .parent()
        .and_then(|above| Directory::open(above).ok().flatten());
    if let (Some(above), Some(name)) = (above, directory.file_name()) {
        let _ = std::fs::remove_dir_all(directory).or_else(|_| above.remove_all(name));
    }
}
