use super::*;
use crate::pages::PageIndex;
use understudy_numbers::{Epoch, Worker};

fn head(pages: u64) -> EpochHead {
    EpochHead {
        key: EpochKey {
            lineage: 1,
            term: 1,
            generation: 0,
            epoch: Epoch(5),
        },
        worker: Worker(2),
        identity: JobIdentity {
            build: 3,
            mpi: "Open MPI v5".into(),
            workers: 4,
            program: "/bin/solver".into(),
            arguments: vec![b"-n".to_vec()],
            layout: vec![("the heap's start".into(), 9)],
        },
        environment: 0,
        state: 5,
        runs: vec![PageRun {
            start: PageIndex(16),
            pages,
        }],
    }
}

/// Returns 300 pages, of which every third is zero.
fn content() -> Vec<u8> {
    let page = |index: usize| {
        vec![
            if index.is_multiple_of(3) {
                0
            } else {
                index as u8 | 1
            };
            PAGE_SIZE
        ]
    };
    (0..300).flat_map(page).collect()
}

fn file() -> Vec<u8> {
    let mut encoder = Encoder::new(Vec::new(), &head(300), b"state").unwrap();
    let last_pages_of_sections: Vec<usize> = content()
        .chunks(PAGE_SIZE)
        .enumerate()
        .filter_map(|(index, page)| encoder.write_page(page).unwrap().then_some(index))
        .collect();
    // The other 44 pages are an incomplete section, which `finish` writes.
    assert_eq!(last_pages_of_sections, [SECTION_PAGES - 1]);
    encoder.finish().unwrap()
}

fn read(bytes: &[u8]) -> Result<(EpochHead, Vec<u8>, Vec<u8>), EpochError> {
    let mut decoder = Decoder::new(bytes)?;
    let (head, state) = (decoder.head.clone(), decoder.read_state()?);
    let mut pages = vec![1; decoder.page_count() as usize * PAGE_SIZE];
    for section in pages.chunks_mut(SECTION_PAGES * PAGE_SIZE) {
        decoder.read_section(section)?;
    }
    decoder.finish()?;
    Ok((head, state, pages))
}

#[test]
fn zero_pages_take_no_space_in_a_file() {
    let bytes = file();
    assert!(bytes.len() < 210 * PAGE_SIZE);
    let (read_head, state, pages) = read(&bytes).unwrap();
    assert_eq!(
        (read_head, state.as_slice()),
        (head(300), b"state".as_slice())
    );
    assert!(pages == content());
}

#[test]
fn every_flipped_bit_is_noticed() {
    let bytes = file();
    let beginning = 0..600;
    let somewhere = (600..bytes.len()).step_by(4999);
    let end = bytes.len() - 20..bytes.len();
    for at in beginning.chain(somewhere).chain(end) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(read(&damaged).is_err(), "byte {at}");
    }
}

#[test]
fn truncated_and_extended_files_are_refused() {
    let bytes = file();
    for length in (0..bytes.len())
        .step_by(499)
        .chain(bytes.len() - 20..bytes.len())
    {
        assert!(
            matches!(read(&bytes[..length]), Err(EpochError::Truncated)),
            "{length}"
        );
    }
    assert!(matches!(
        read(&[bytes.as_slice(), b"x"].concat()),
        Err(EpochError::TooLong)
    ));
}

#[test]
fn sections_cannot_change_places() {
    let mut encoder = Encoder::new(Vec::new(), &head(512), b"state").unwrap();
    for index in 0..512u32 {
        encoder
            .write_page(&[1 + (index / 256) as u8; PAGE_SIZE])
            .unwrap();
    }
    let bytes = encoder.finish().unwrap();
    // Bitmap, pages, checksum; the end mark follows the last section.
    let section = MAP_BYTES + SECTION_PAGES * PAGE_SIZE + 8;
    let first = bytes.len() - END.len() - 2 * section;
    let mut swapped = bytes.clone();
    swapped[first..first + section].copy_from_slice(&bytes[first + section..first + 2 * section]);
    swapped[first + section..first + 2 * section].copy_from_slice(&bytes[first..first + section]);
    assert!(read(&bytes).is_ok());
    assert!(matches!(read(&swapped), Err(EpochError::Damaged(_))));
}

#[test]
fn another_version_is_named() {
    let mut bytes = file();
    bytes[8] = 77;
    assert!(matches!(read(&bytes), Err(EpochError::Version(77))));
    assert!(matches!(
        read(b"something quite different"),
        Err(EpochError::Magic)
    ));
}

/// Creates the begin of a file: valid first bytes, this head, and its checksum.
fn with_head(head: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((head.len() as u32).to_le_bytes());
    bytes.extend(head);
    bytes.extend(checksum(&bytes, 0));
    bytes
}

/// A list that claims a length of 2^48 is refused, without such an allocation.
///
/// Regression test: such a file, which `make fuzz` has found, ended the program that read it.
#[test]
fn lists_that_only_claim_to_be_long_take_no_memory() {
    let good = bincode::encode_to_vec(head(1), standard()).unwrap();
    assert!(Decoder::new(with_head(&good).as_slice()).is_ok());
    // In bincode's encoding of integers, 253 announces that eight bytes follow.
    for at in 0..good.len() {
        let mut claims = good.clone();
        claims.splice(at..at + 1, [253, 0, 0, 0, 0, 0, 0, 1, 0]);
        let _ = Decoder::new(with_head(&claims).as_slice());
    }
    // The last three bytes encode `runs`: the length of the list, `start` and `pages`.
    let long = [&good[..good.len() - 3], &[253, 0, 0, 0, 0, 0, 0, 1, 0]].concat();
    assert!(matches!(
        Decoder::new(with_head(&long).as_slice()),
        Err(EpochError::Head)
    ));
}

#[test]
fn runs_must_be_sorted_disjoint_and_in_the_address_space() {
    for runs in [
        &[(16, 0)][..],
        &[(16, 4), (19, 1)],
        &[(16, 4), (2, 1)],
        &[(u64::MAX, 2)],
        &[(0, 1 << 52)],
        &[(1, u64::MAX), (3, u64::MAX)],
    ] {
        let runs = runs.iter().map(|&(start, pages)| PageRun {
            start: PageIndex(start),
            pages,
        });
        let other = EpochHead {
            runs: runs.collect(),
            ..head(1)
        };
        let bytes = with_head(&bincode::encode_to_vec(&other, standard()).unwrap());
        assert!(
            matches!(Decoder::new(bytes.as_slice()), Err(EpochError::Head)),
            "{:?}",
            other.runs
        );
    }
}

#[test]
fn what_differs_is_named() {
    let ours = head(1).identity;
    let difference = |change: fn(&mut JobIdentity)| {
        let mut theirs = ours.clone();
        change(&mut theirs);
        ours.difference(&theirs).unwrap_or_default()
    };
    assert_eq!(difference(|_| ()), "");
    assert!(difference(|theirs| theirs.build = 0).contains("another build"));
    assert!(difference(|theirs| theirs.workers = 8).contains("another number of workers (8, "));
    assert!(difference(|theirs| theirs.mpi = "MPICH".into()).contains("MPICH"));
    assert!(difference(|theirs| theirs.arguments = vec![b"-x".to_vec()]).contains("`-x`"));
    assert!(difference(|theirs| theirs.layout[0].1 = 0).contains("the heap's start"));
    assert!(difference(|theirs| theirs.layout.clear()).contains("the number of loaded libraries"));
}
