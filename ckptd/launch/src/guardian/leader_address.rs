//! Publication of the leader's address by the key-value store of an MPI library's launcher.
//!
//! Rank 0 publishes the address, and the first process of each other node connects to it. All ranks
//! must take part, because PMI-1 publishes at a barrier. `ckptd meet` is a short-lived PMIx client
//! in a process of its own, because the launcher's libpmix has threads and state that cannot be
//! removed.

use super::launchers::AddressService;
use crate::Error;
use crate::process_context::own_program;
use rustix::process::{Signal, set_parent_process_death_signal};
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use understudy_pmi::{Pmi1Client, PmixClient};

/// Key under which rank 0 publishes the leader's address.
const KEY: &str = "understudy.leader";
/// Separator that occurs in no address, job name or token, and that every store accepts.
const SEPARATOR: char = ',';

/// Addresses of the leader, and the token with which a node authenticates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaderAddress {
    /// Name of the job on the leader's node.
    ///
    /// Launchers may use another name on each node.
    pub job: String,
    pub token: Vec<u8>,
    pub addresses: Vec<String>,
}

impl LeaderAddress {
    fn text(&self) -> String {
        let token = self
            .token
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let words = [&[self.job.clone(), token], &self.addresses[..]].concat();
        words.join(&SEPARATOR.to_string())
    }

    fn of(text: &str) -> Option<LeaderAddress> {
        let mut words = text.trim().split(SEPARATOR).map(str::to_owned);
        let (job, token) = (words.next()?, words.next()?);
        let byte = |at: usize| u8::from_str_radix(token.get(at..at + 2)?, 16).ok();
        Some(LeaderAddress {
            job,
            token: (0..token.len())
                .step_by(2)
                .map(byte)
                .collect::<Option<_>>()?,
            addresses: words.collect(),
        })
    }

    /// Publishes the address for the other nodes, as rank 0.
    ///
    /// # Errors
    /// [`Error::NoMeeting`], or those of [`Pmi1Client`].
    pub fn publish(&self, service: AddressService) -> Result<(), Error> {
        match service {
            AddressService::Pmix => exchange_by_pmix(Some(self)).map(drop),
            AddressService::Pmi1 => exchange_by_pmi1(Some(self)).map(drop),
        }
    }

    /// Waits until rank 0 has published the address, and returns it.
    ///
    /// # Errors
    /// [`Error::NoMeeting`], or those of [`Pmi1Client`].
    pub fn find(service: AddressService) -> Result<LeaderAddress, Error> {
        let text = match service {
            AddressService::Pmix => exchange_by_pmix(None)?,
            AddressService::Pmi1 => exchange_by_pmi1(None)?,
        };
        LeaderAddress::of(&text).ok_or(Error::NoMeeting)
    }
}

/// Publishes an address, or returns the published address.
fn exchange_by_pmi1(publish: Option<&LeaderAddress>) -> Result<String, Error> {
    let mut client = Pmi1Client::connect()?;
    let text = publish.map(LeaderAddress::text);
    if let Some(text) = &text {
        client.put(KEY, text)?;
    }
    client.barrier()?;
    let text = text.map_or_else(|| client.get(KEY), Ok)?;
    client.finalize()?;
    Ok(text)
}

/// Runs `ckptd meet` and returns its output.
fn exchange_by_pmix(publish: Option<&LeaderAddress>) -> Result<String, Error> {
    let own = own_program()?;
    let mut command = Command::new(own);
    command.arg("meet").env_remove("LD_PRELOAD");
    command.args(publish.map(|_| "--publish"));
    let what = || Error::system("ckptd meet");
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(what())?;
    if let (Some(leader), Some(mut input)) = (publish, child.stdin.take()) {
        input.write_all(leader.text().as_bytes()).map_err(what())?;
    }
    let output = child.wait_with_output().map_err(what())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(Error::NoMeeting),
    }
}

/// Runs `ckptd meet`: publishes standard input, or prints what rank 0 has published.
///
/// # Errors
/// Errors of [`PmixClient`].
pub fn meet(publish: bool) -> Result<i32, Error> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|errno| Error::system("prctl")(errno.into()))?;
    let mut text = String::new();
    if publish {
        let read = std::io::stdin().read_to_string(&mut text);
        read.map_err(Error::system("standard input"))?;
        PmixClient::connect()?.put(KEY, &text)?;
    } else {
        println!("{}", PmixClient::connect()?.get(0, KEY)?);
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_is_a_line() {
        let leader = LeaderAddress {
            job: "job@1".into(),
            token: vec![0, 1, 255],
            addresses: vec!["a:1".into(), "10.0.0.1:1".into()],
        };
        assert_eq!(leader.text(), "job@1,0001ff,a:1,10.0.0.1:1");
        assert_eq!(LeaderAddress::of(&leader.text()), Some(leader));
        assert_eq!(LeaderAddress::of("job@1,0"), None);
        assert_eq!(LeaderAddress::of(""), None);
    }
}
