//! Tokens that authenticate peers of the daemon, or of a job's leader, over TCP.
//!
//! A token is never transmitted. One side sends a number that it has never sent before. The other
//! side answers with a code (HMAC-SHA256) whose computation requires the token.

use hmac_sha256::HMAC;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Minimum length of a token in bytes.
const MIN_TOKEN_BYTES: usize = 16;
/// Maximum number of bytes that are read from a token file.
const MAX_FILE_BYTES: u64 = 64 << 10;
/// Maximum number of tokens in a file.
const MAX_TOKENS: usize = 256;

/// Purpose of a proof, which is invalid for any other purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofPurpose {
    /// Admission of a client by the daemon.
    Client,
    /// Admission of a node by the leader of a job.
    Node,
    /// Authentication of the leader for a node.
    Leader,
}

impl ProofPurpose {
    fn text(self) -> &'static [u8] {
        match self {
            ProofPurpose::Client => b"understudy ckptd 1 client",
            ProofPurpose::Node => b"understudy ckptd 1 node",
            ProofPurpose::Leader => b"understudy ckptd 1 leader",
        }
    }
}

/// Returns an unpredictable number.
///
/// # Errors
/// Fails with errors of getrandom(2).
pub fn nonce() -> io::Result<[u8; 32]> {
    let (mut bytes, mut done) = ([0; 32], 0);
    while done < bytes.len() {
        done += rustix::rand::getrandom(&mut bytes[done..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

fn hmac_of(purpose: ProofPurpose, token: &[u8], nonce: &[u8; 32]) -> HMAC {
    let mut code = HMAC::new(token);
    code.update(purpose.text());
    code.update(nonce);
    code
}

/// Returns the answer to a challenge.
pub fn proof(purpose: ProofPurpose, token: &[u8], nonce: &[u8; 32]) -> [u8; 32] {
    hmac_of(purpose, token, nonce).finalize()
}

/// Returns the index of the token that the peer has used for its proof.
///
/// The duration of the call reveals nothing about the tokens.
pub fn verify(
    purpose: ProofPurpose,
    tokens: &[Vec<u8>],
    nonce: &[u8; 32],
    proof: &[u8; 32],
) -> Option<usize> {
    let verdicts = tokens
        .iter()
        .map(|token| hmac_of(purpose, token, nonce).finalize_verify(proof));
    let found = verdicts
        .enumerate()
        .map(|(index, is_valid)| if is_valid { index + 1 } else { 0 });
    found.fold(0, usize::max).checked_sub(1)
}

/// Reads a file of tokens, one per line.
///
/// # Errors
/// Fails if the file cannot be read, if another user owns or can access the file, or if the number
/// or the length of the tokens is wrong.
pub fn read_tokens(path: &Path) -> io::Result<Vec<Vec<u8>>> {
    let refuse = |why: &str| io::Error::other(format!("{}: {why}", path.display()));
    let file = File::open(path).map_err(|error| refuse(&error.to_string()))?;
    let metadata = file.metadata()?;
    if !metadata.is_file()
        || metadata.uid() != rustix::process::geteuid().as_raw()
        || metadata.mode() & 0o077 != 0
    {
        return Err(refuse(
            "a file of tokens must belong to this user, and other users must have no access to it \
             (chmod 600)",
        ));
    }
    let mut text = String::new();
    // A file that is too long must not lose the end of a token.
    if file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)? as u64 > MAX_FILE_BYTES {
        return Err(refuse("a file of tokens must have at most 64 KiB"));
    }
    let tokens: Vec<Vec<u8>> = text
        .lines()
        .map(|line| line.trim().as_bytes().to_vec())
        .filter(|token| !token.is_empty())
        .collect();
    if tokens.is_empty()
        || tokens.len() > MAX_TOKENS
        || tokens.iter().any(|token| token.len() < MIN_TOKEN_BYTES)
    {
        return Err(refuse(
            "a file of tokens must have 1 to 256 lines, each with a token of at least 16 \
             characters",
        ));
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_owners_of_a_token_can_answer() {
        let tokens = [
            b"a token of some length".to_vec(),
            b"another one, as long".to_vec(),
        ];
        let (nonce, other) = ([7; 32], [8; 32]);
        let token_of = |proof: [u8; 32]| verify(ProofPurpose::Client, &tokens, &nonce, &proof);
        assert_eq!(
            token_of(proof(ProofPurpose::Client, &tokens[0], &nonce)),
            Some(0)
        );
        assert_eq!(
            token_of(proof(ProofPurpose::Client, &tokens[1], &nonce)),
            Some(1)
        );
        assert_eq!(
            token_of(proof(ProofPurpose::Client, &tokens[1], &other)),
            None
        );
        assert_eq!(
            token_of(proof(ProofPurpose::Node, &tokens[1], &nonce)),
            None
        );
        assert_eq!(
            token_of(proof(
                ProofPurpose::Client,
                b"a guess of some length",
                &nonce
            )),
            None
        );
        assert_eq!(
            verify(
                ProofPurpose::Client,
                &[],
                &nonce,
                &proof(ProofPurpose::Client, b"", &nonce)
            ),
            None
        );
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("tokens");
        let write = |text: &str, mode| {
            std::fs::write(&path, text).expect("written");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
        };
        write("0123456789abcdef\n\nfedcba9876543210 \n", 0o600);
        assert_eq!(
            read_tokens(&path).expect("good"),
            [b"0123456789abcdef".to_vec(), b"fedcba9876543210".to_vec()]
        );
        write("0123456789abcdef\n", 0o640);
        assert!(read_tokens(&path).is_err());
        write("short\n", 0o600);
        assert!(read_tokens(&path).is_err());
        write("\n", 0o600);
        assert!(read_tokens(&path).is_err());
        // 63 lines of 1041 characters are longer than 64 KiB.
        write(&format!("{}\n", "a".repeat(1040)).repeat(63), 0o600);
        assert!(read_tokens(&path).is_err_and(|why| why.to_string().contains("64 KiB")));
    }
}
