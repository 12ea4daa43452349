//! From where an epoch is held to the disk: by the daemon, which outlives this process, or else here.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use understudy_abi::RUNTIME_FD_BASE;
use understudy_formats::epochs::flush;
use understudy_wire::client::{Address, Client, ClientError};
use understudy_wire::{Answer, Ask};

/// How long the daemon may take to connect, or to answer.
const LIMIT: Duration = Duration::from_secs(2);
/// Time between two questions.
const LOOK: Duration = Duration::from_millis(10);

/// What has become of a file: its length.
pub type Outcome = io::Result<u64>;

/// Copies a file, and waits for that. In the thread that writes.
pub fn to_disk(from: &Path, to: &Path, daemon: Option<&Address>, stop: &AtomicBool) -> Outcome {
    if let Some(address @ Address::Local(_)) = daemon {
        match by_daemon(from, to, address, stop) {
            Ok(outcome) => return outcome,
            Err(why) => log::info!("the daemon does not copy {}: {why}", from.display()),
        }
    }
    flush::copy(from, to, stop)
}

fn by_daemon(
    from: &Path,
    to: &Path,
    address: &Address,
    stop: &AtomicBool,
) -> Result<Outcome, ClientError> {
    let mut client = Client::connect(address, None, LIMIT, RUNTIME_FD_BASE)?;
    let [source, copy] = [from, to].map(|path| path.as_os_str().as_bytes().to_vec());
    let ask = Ask::CopyHeld {
        from: source,
        to: copy,
    };
    let Answer::Copying { id: Some(id) } = client.ask(&ask, LIMIT)? else {
        return Err(ClientError::Unexpected);
    };
    let mut is_given_up = false;
    loop {
        std::thread::sleep(LOOK);
        if stop.load(Ordering::Relaxed) && !std::mem::replace(&mut is_given_up, true) {
            client.tell(&Ask::GiveUpCopy { id })?;
        }
        match client.ask(&Ask::WasCopied { id }, LIMIT)? {
            Answer::Copied { outcome: None } => {}
            Answer::Copied { outcome: Some(0) } => {
                return Ok(std::fs::metadata(to).map(|about| about.len()));
            }
            Answer::Copied {
                outcome: Some(errno),
            } => return Ok(Err(io::Error::from_raw_os_error(errno))),
            _ => return Err(ClientError::Unexpected),
        }
    }
}
