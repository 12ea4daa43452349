//! A short-lived client of the launcher's PMI-1 server.
//!
//! Processes on several nodes exchange an address by such clients.
//! MPICH's mpiexec and Slurm's srun (`--mpi=pmi2`) have such a server. After a barrier, which all
//! ranks must enter, every rank can get the data that were put.

use super::pmi1_line::Line;
use crate::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Time limit of an answer; a barrier ends when the last rank has entered it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Variable for the descriptor of a rank's connection.
pub const DESCRIPTOR: &str = "PMI_FD";

/// Connection of this process, as the rank to which its descriptor belongs.
///
/// A process can create one client.
pub struct Pmi1Client {
    lines: BufReader<UnixStream>,
    key_space: String,
}

impl Pmi1Client {
    /// Connects to the server of the launcher.
    ///
    /// # Errors
    /// [`Error::NotLaunched`], and [`Error::System`] if the server's answer is not as expected.
    pub fn connect() -> Result<Pmi1Client, Error> {
        let number = std::env::var(DESCRIPTOR)
            .ok()
            .and_then(|text| text.parse().ok());
        let socket = number.map(take_inherited_socket);
        Pmi1Client::on(socket.ok_or(Error::NotLaunched)?)
    }

    fn on(stream: UnixStream) -> Result<Pmi1Client, Error> {
        stream
            .set_read_timeout(Some(ANSWER_TIMEOUT))
            .map_err(server_error())?;
        let mut client = Pmi1Client {
            lines: BufReader::new(stream),
            key_space: String::new(),
        };
        client.request(
            "init pmi_version=1 pmi_subversion=1",
            "response_to_init",
            "rc",
        )?;
        client.key_space = client.request("get_my_kvsname", "my_kvsname", "kvsname")?;
        Ok(client)
    }

    /// Puts a text, which must not contain spaces or `=`.
    ///
    /// # Errors
    /// Errors of [`Pmi1Client::connect`].
    pub fn put(&mut self, key: &str, text: &str) -> Result<(), Error> {
        let request = format!("put kvsname={} key={key} value={text}", self.key_space);
        self.request(&request, "put_result", "rc").map(drop)
    }

    /// Waits for all ranks.
    ///
    /// # Errors
    /// Errors of [`Pmi1Client::connect`].
    pub fn barrier(&mut self) -> Result<(), Error> {
        self.request("barrier_in", "barrier_out", "cmd").map(drop)
    }

    /// Returns data that were put before the barrier.
    ///
    /// # Errors
    /// Errors of [`Pmi1Client::connect`].
    pub fn get(&mut self, key: &str) -> Result<String, Error> {
        let request = format!("get kvsname={} key={key}", self.key_space);
        self.request(&request, "get_result", "value")
    }

    /// Ends the connection; afterwards the launcher expects no PMI requests of this process.
    ///
    /// # Errors
    /// Errors of [`Pmi1Client::connect`].
    pub fn finalize(mut self) -> Result<(), Error> {
        self.request("finalize", "finalize_ack", "cmd").map(drop)
    }

    /// Sends a request and returns a field of its answer.
    fn request(&mut self, request: &str, answer: &str, field: &str) -> Result<String, Error> {
        let mut text = String::new();
        let written = self
            .lines
            .get_mut()
            .write_all(format!("cmd={request}\n").as_bytes());
        written
            .and_then(|()| self.lines.read_line(&mut text))
            .map_err(server_error())?;
        let line = Line(text.trim_end().as_bytes());
        let is_good = line.get("cmd") == Some(answer.as_bytes())
            && line.number("rc").is_none_or(|rc| rc == 0);
        let value = line
            .get(field)
            .filter(|_| is_good)
            .map(String::from_utf8_lossy);
        value.map(Into::into).ok_or_else(|| {
            let answered = format!("`{request}` was answered by `{}`", text.trim_end());
            server_error()(io::Error::other(answered))
        })
    }
}

fn server_error() -> impl FnOnce(io::Error) -> Error {
    Error::system("the PMI-1 server of the launcher")
}

#[allow(unsafe_code)]
fn take_inherited_socket(descriptor: RawFd) -> UnixStream {
    // SAFETY: the launcher has left the descriptor open for this process, in which no other code
    // uses it.
    UnixStream::from(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
