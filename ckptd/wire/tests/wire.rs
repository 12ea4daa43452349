//! Tests of the wire decoder with hostile bytes.
//!
//! The decoder never panics, never allocates more than its limit, and never accepts damaged bytes
//! as a message.

use proptest::collection::vec;
use proptest::prelude::*;
use understudy_formats::events::{ProcessNumber, Worker};
use understudy_wire::spares::{
    Lease, LeaseToken, ProcessLocation, Refusal, Spare, SpareLimits, SpareNeed,
};
use understudy_wire::{
    Answer, DECODE_LIMIT, Decoder, Event, HEAD_BYTES, JobStatus, MAX_PAYLOAD, Request, SpareStatus,
    VERSION, WireError, encode,
};
use watch::largest;
use xxhash_rust::xxh3::xxh3_64;

#[path = "../../../fuzz/src/wire_decoder.rs"]
mod drive;
#[path = "../../../fuzz/src/recording_allocator.rs"]
mod watch;

fn place(name: &str) -> ProcessLocation {
    ProcessLocation {
        host: format!("host-{name}"),
        domain: format!("domain-{name}"),
    }
}

fn spare() -> Spare {
    Spare {
        rank: ProcessNumber(5),
        pid: 4711,
        launcher: 4700,
        host: "host".into(),
        domain: "domain".into(),
        workers: 4,
    }
}

fn requests() -> Vec<Request> {
    let needs = |count: u32| {
        let need = |worker| SpareNeed {
            worker: Worker(worker),
            failed: place("a"),
            copies: vec![place("b"), place("c")],
        };
        (0..count).map(need).collect()
    };
    let job = || "prterun-host-1@1".to_owned();
    vec![
        Request::Prove { proof: [9; 32] },
        Request::Register {
            job: job(),
            spare: spare(),
            limits: SpareLimits {
                minimum: 1,
                maximum: 3,
            },
        },
        Request::Beat,
        Request::Replaced { worker: Worker(3) },
        Request::Leave,
        Request::Lease {
            job: job(),
            round: u64::MAX,
            needs: needs(1000),
        },
        Request::GiveBack {
            job: job(),
            token: LeaseToken(7),
        },
        Request::Replenish {
            job: job(),
            spares: 1,
            aim: 3,
        },
        Request::Status,
    ]
}

fn answers() -> Vec<Answer> {
    let lease = Lease {
        worker: Worker(1),
        rank: ProcessNumber(5),
        token: LeaseToken(u64::MAX),
    };
    let status = JobStatus {
        job: "job".into(),
        spares: vec![SpareStatus {
            spare: spare(),
            leased: Some(Worker(1)),
        }],
        replacements: vec![ProcessNumber(6), ProcessNumber(7)],
        wanted: 1,
        events: vec![Event {
            at: 1,
            what: "spare 5 has come".into(),
        }],
    };
    vec![
        Answer::Challenge { nonce: [3; 32] },
        Answer::Welcome,
        Answer::Leased(vec![lease; 100]),
        Answer::Start { count: 2 },
        Answer::Status(vec![status; 10]),
        Answer::Refused(Refusal::LateRound),
        Answer::Closed("why".into()),
    ]
}

/// Creates a frame with a valid head around any payload.
fn framed(payload: &[u8]) -> Vec<u8> {
    let mut frame = b"USCK".to_vec();
    frame.extend(VERSION.to_le_bytes());
    frame.extend([0; 2]);
    frame.extend((payload.len() as u32).to_le_bytes());
    frame.extend((xxh3_64(payload) as u32).to_le_bytes());
    frame.extend(payload);
    frame
}

fn decode_one<M: bincode::Decode<()>>(bytes: &[u8]) -> Result<Option<M>, WireError> {
    let mut decoder = Decoder::default();
    decoder.feed(bytes);
    decoder.take()
}

#[test]
fn what_is_sent_arrives_in_pieces_of_any_length() {
    let frames: Vec<u8> = requests()
        .iter()
        .flat_map(|request| encode(request).expect("short enough"))
        .collect();
    for piece in [1, 7, 16, 17, 4096, frames.len()] {
        let (mut decoder, mut got) = (Decoder::default(), Vec::new());
        for bytes in frames.chunks(piece) {
            decoder.feed(bytes);
            while let Some(request) = decoder.take::<Request>().expect("good frames") {
                got.push(request);
            }
        }
        assert_eq!(got, requests());
        assert_eq!(decoder.incomplete_bytes(), 0);
    }
    for answer in answers() {
        assert_eq!(
            decode_one(&encode(&answer).expect("short enough")),
            Ok(Some(answer))
        );
    }
}

#[test]
fn every_bit_counts() {
    for request in requests()
        .into_iter()
        .filter(|request| !matches!(request, Request::Lease { .. }))
    {
        let frame = encode(&request).expect("short enough");
        for bit in 0..frame.len() * 8 {
            let mut damaged = frame.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            // A length that is too long makes the decoder wait for more bytes.
            let got = decode_one::<Request>(&damaged);
            assert!(
                matches!(got, Err(_) | Ok(None)),
                "bit {bit} of {request:?} does not matter: {got:?}"
            );
        }
        for length in 0..frame.len() {
            assert_eq!(
                decode_one::<Request>(&frame[..length]),
                Ok(None),
                "{length} bytes of {request:?}"
            );
        }
    }
}

#[test]
fn absurd_lengths_are_refused_before_anything_is_kept() {
    let mut frame = framed(&[]);
    frame[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(
        decode_one::<Request>(&frame),
        Err(WireError::Length(u32::MAX))
    );
    frame[8..12].copy_from_slice(&(MAX_PAYLOAD as u32 + 1).to_le_bytes());
    assert_eq!(
        decode_one::<Request>(&frame),
        Err(WireError::Length(MAX_PAYLOAD as u32 + 1))
    );
    assert_eq!(
        decode_one::<Request>(b"GET / HTTP/1.1\r\n"),
        Err(WireError::Magic)
    );
    assert_eq!(decode_one::<Request>(b"\x00"), Err(WireError::Magic));
    let mut later = framed(&[]);
    later[4..6].copy_from_slice(&(VERSION + 1).to_le_bytes());
    assert_eq!(
        decode_one::<Request>(&later[..6]),
        Err(WireError::Version(VERSION + 1))
    );
    let long = Answer::Closed("x".repeat(MAX_PAYLOAD));
    assert_eq!(encode(&long), None);
}

/// Frames whose lists claim more elements than follow are refused within the allocation limit.
#[test]
fn claimed_lengths_allocate_nothing() {
    // Lease: variant, name, round, then the number of workers.
    for claimed in [251u8, 252, 253] {
        let mut payload = vec![5, 1, b'j', 1, claimed];
        payload.extend([0xff; 16]);
        let frame = framed(&payload);
        let got = largest(|| assert_eq!(decode_one::<Request>(&frame), Err(WireError::Damaged)));
        assert!(got <= DECODE_LIMIT, "{got} bytes");
    }
    // A list of maximum length: as many empty names as fit.
    let parts = MAX_PAYLOAD - 16;
    let mut payload = vec![5, 1, b'j', 1, 252];
    payload.extend((parts as u32 / 6).to_le_bytes());
    payload.resize(MAX_PAYLOAD, 0);
    let frame = framed(&payload);
    let got = largest(|| assert!(decode_one::<Request>(&frame).is_err()));
    assert!(got <= DECODE_LIMIT, "{got} bytes");
}

fn limited(bytes: &[u8]) -> Result<(), TestCaseError> {
    let got = largest(|| drive::drive(bytes));
    prop_assert!(
        got <= DECODE_LIMIT.max(2 * (bytes.len() + HEAD_BYTES)),
        "{got} bytes"
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes(bytes in vec(any::<u8>(), 0..4096)) {
        limited(&bytes)?;
    }

    #[test]
    fn random_payloads_in_good_frames(piece in any::<u8>(), payloads in vec(vec(any::<u8>(), 0..600), 1..8)) {
        let frames = payloads.iter().flat_map(|payload| framed(payload));
        limited(&std::iter::once(piece).chain(frames).collect::<Vec<_>>())?;
    }

    /// Changed bytes in messages with a correct check cause no panic and no large allocation.
    #[test]
    fn near_misses(which in any::<usize>(), changes in vec((any::<usize>(), any::<u8>()), 1..6), cut in any::<usize>()) {
        let requests = requests();
        let mut payload = encode(&requests[which % requests.len()]).expect("short enough").split_off(HEAD_BYTES);
        for (at, value) in changes {
            let length = payload.len();
            payload[at % length] = value;
        }
        payload.truncate(payload.len() - (cut % 3).wrapping_mul(cut) % payload.len());
        let mut bytes = vec![3];
        bytes.extend(framed(&payload));
        limited(&bytes)?;
    }
}
