use super::*;
use crate::{GenerationName, Placement, Spawned};
use proptest::collection::vec;
use proptest::prelude::*;

fn space(host_of_rank: &[usize]) -> KeySpace {
    let placement = Placement::new(vec!["a".into(), "b".into()], host_of_rank.to_vec()).unwrap();
    KeySpace::new(&Namespace {
        name: GenerationName::new("job", 3).unwrap(),
        placement,
        here: 0,
        is_crowded: false,
        spawned: None,
    })
}

/// Returns the text that is sent to one rank.
fn sent_to(acts: &[KeySpaceAction], to: u32) -> String {
    let sent = acts.iter().filter_map(|act| match act {
        KeySpaceAction::Send(rank, bytes) if rank.0 == to => {
            Some(String::from_utf8_lossy(bytes).into_owned())
        }
        _ => None,
    });
    sent.collect()
}

fn request(space: &mut KeySpace, rank: u32, line: &str) -> String {
    let acts = space.take(Rank(rank), format!("{line}\n").as_bytes());
    sent_to(&acts, rank)
}

#[test]
fn a_rank_is_answered_in_the_words_of_pmi_1() {
    let mut space = space(&[0, 0]);
    for (line, expected) in [
        (
            "cmd=init pmi_version=1 pmi_subversion=1",
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
        ),
        (
            "cmd=init pmi_version=2 pmi_subversion=0",
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n",
        ),
        (
            "cmd=get_maxes",
            "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n",
        ),
        ("cmd=get_appnum", "cmd=appnum rc=0 appnum=0\n"),
        ("cmd=get_my_kvsname", "cmd=my_kvsname rc=0 kvsname=job.3\n"),
        ("cmd=get_universe_size", "cmd=universe_size rc=0 size=-1\n"),
        (
            "cmd=get kvsname=job.3 key=PMI_process_mapping",
            "cmd=get_result rc=0 value=(vector,(0,1,2))\n",
        ),
        (
            "cmd=get kvsname=job.3 key=k",
            "cmd=get_result rc=-1 msg=not_found\n",
        ),
        (
            "cmd=put kvsname=job.3 key=k value=a#=b",
            "cmd=put_result rc=0\n",
        ),
        (
            "cmd=put kvsname=job.2 key=k value=b",
            "cmd=put_result rc=-1 msg=unknown_kvsname\n",
        ),
        (
            "cmd=put kvsname=job.3 key=k",
            "cmd=put_result rc=-1 msg=key_or_value_missing\n",
        ),
        (
            "cmd=put kvsname=job.3 key=k=l value=b",
            "cmd=put_result rc=-1 msg=bad_key\n",
        ),
        (
            "cmd=get kvsname=job.3 key=k",
            "cmd=get_result rc=0 value=a#=b\n",
        ),
        (
            "cmd=publish_name service=s port=p",
            "cmd=publish_result rc=0\n",
        ),
        (
            "cmd=publish_name service=s port=q",
            "cmd=publish_result rc=-1\n",
        ),
        (
            "cmd=lookup_name service=s",
            "cmd=lookup_result rc=0 port=p\n",
        ),
        (
            "cmd=unpublish_name service=s",
            "cmd=unpublish_result rc=0\n",
        ),
        (
            "cmd=unpublish_name service=s",
            "cmd=unpublish_result rc=-1\n",
        ),
        (
            "cmd=lookup_name service=s",
            "cmd=lookup_result rc=-1 msg=not_found\n",
        ),
        ("cmd=dance", "cmd=dance_result rc=-1 msg=unknown_command\n"),
        ("cmd=finalize", "cmd=finalize_ack rc=0\n"),
    ] {
        assert_eq!(request(&mut space, 0, line), expected, "{line}");
    }
}

#[test]
fn a_barrier_waits_for_all_and_can_be_reused() {
    let mut space = space(&[0, 0]);
    for _ in 0..3 {
        assert_eq!(space.take(Rank(1), b"cmd=barrier_in\n"), []);
        let acts = space.take(Rank(0), b"cmd=barrier_in\n");
        assert_eq!(sent_to(&acts, 0), "cmd=barrier_out rc=0\n");
        assert_eq!(sent_to(&acts, 1), "cmd=barrier_out rc=0\n");
    }
    // A rank whose connection was closed does not wait any more.
    space.take(Rank(1), b"cmd=barrier_in\n");
    space.forget(Rank(1));
    assert_eq!(space.take(Rank(0), b"cmd=barrier_in\n"), []);
}

#[test]
fn a_barrier_of_several_nodes_brings_what_was_put_there() {
    let mut space = space(&[0, 1]);
    request(&mut space, 0, "cmd=put kvsname=job.3 key=mine value=1=2");
    let acts = space.take(Rank(0), b"cmd=barrier_in\n");
    let bytes = b"mine=1=2\n".to_vec();
    assert_eq!(acts, [KeySpaceAction::Fence { number: 0, bytes }]);
    let acts = space.fenced(Some(b"mine=1=2\ntheirs=3\nnonsense\n"));
    assert_eq!(sent_to(&acts, 0), "cmd=barrier_out rc=0\n");
    assert_eq!(
        request(&mut space, 0, "cmd=get kvsname=job.3 key=theirs"),
        "cmd=get_result rc=0 value=3\n"
    );
    // Only new data are sent with the next barrier.
    let acts = space.take(Rank(0), b"cmd=barrier_in\n");
    assert_eq!(
        acts,
        [KeySpaceAction::Fence {
            number: 1,
            bytes: Vec::new()
        }]
    );
    assert_eq!(
        sent_to(&space.fenced(None), 0),
        "cmd=barrier_out rc=-1 msg=a_node_is_lost\n"
    );
}

#[test]
fn an_abort_is_reported_with_its_message() {
    let mut space = space(&[0, 0]);
    let acts = space.take(Rank(1), b"cmd=abort exitcode=7 message=out of luck\n");
    let message = "out of luck".to_owned();
    assert_eq!(
        acts,
        [KeySpaceAction::Report(
            Rank(1),
            RankAction::Abort { status: 7, message }
        )]
    );
    let acts = space.take(Rank(1), b"cmd=abort\n");
    let message = String::new();
    assert_eq!(
        acts,
        [KeySpaceAction::Report(
            Rank(1),
            RankAction::Abort { status: 1, message }
        )]
    );
}

/// Lines that MPICH sends for two programs.
const SPAWN: &str = "mcmd=spawn
nprocs=2
execname=worker
totspawns=2
spawnssofar=1
argcnt=2
arg1=cmd=finalize
arg2=a b\\c
preput_num=1
preput_key_0=PORT
preput_val_0=tag#0$x
info_num=1
info_key_0=wdir
info_val_0=/a b
endcmd
mcmd=spawn
nprocs=1
execname=other
totspawns=2
spawnssofar=2
argcnt=0
info_num=1
info_key_0=path
info_val_0=/opt
endcmd
";

#[test]
fn a_rank_spawns_processes_and_waits_for_their_start() {
    let mut space = space(&[0, 0]);
    let program =
        |file: &str, arguments: &[&str], directory: Option<&str>, processes| ChildProgram {
            file: file.into(),
            arguments: arguments.iter().map(|&argument| argument.into()).collect(),
            variables: Vec::new(),
            directory: directory.map(Into::into),
            processes,
        };
    let expected = KeySpaceAction::Spawn {
        rank: Rank(1),
        programs: vec![
            program(
                "worker",
                &["worker", "cmd=finalize", r"a b\c"],
                Some("/a b"),
                2,
            ),
            program("/opt/other", &["other"], None, 1),
        ],
        put: vec![("PORT".into(), "tag#0$x".into())],
    };
    for (is_good, answer) in [
        (true, "cmd=spawn_result rc=0\n"),
        (false, "cmd=spawn_result rc=-1 msg=not_started\n"),
    ] {
        assert_eq!(
            space.take(Rank(1), SPAWN.as_bytes()),
            std::slice::from_ref(&expected)
        );
        assert_eq!(sent_to(&space.spawned(Rank(1), is_good), 1), answer);
        // Each answer is given once and only to the requesting rank.
        assert_eq!(space.spawned(Rank(1), is_good), []);
        assert_eq!(space.spawned(Rank(0), is_good), []);
    }
    let nonsense = SPAWN.replace("nprocs=1", "nprocs=0");
    assert_eq!(
        sent_to(&space.take(Rank(1), nonsense.as_bytes()), 1),
        "cmd=spawn_result rc=-1 msg=not_understood\n"
    );
    let endless = format!("mcmd=spawn\n{}", "arg1=again\n".repeat(1 << 19));
    assert_eq!(
        space.take(Rank(1), endless.as_bytes()),
        [KeySpaceAction::Close(Rank(1))]
    );
}

#[test]
fn spawned_ranks_have_their_program_and_initial_data() {
    let mut namespace = Namespace::here("job", 3, "n", 3).unwrap();
    namespace.spawned = Some(Spawned {
        process_counts: vec![2, 1],
        put: vec![("PORT".into(), "tag#0$x".into())],
    });
    let mut space = KeySpace::new(&namespace);
    for (rank, program) in [(0, 0), (1, 0), (2, 1)] {
        let appnum = format!("cmd=appnum rc=0 appnum={program}\n");
        assert_eq!(request(&mut space, rank, "cmd=get_appnum"), appnum);
        assert_eq!(
            request(&mut space, rank, "cmd=get kvsname=job.3 key=PORT"),
            "cmd=get_result rc=0 value=tag#0$x\n"
        );
    }
}

#[test]
fn lines_may_be_split_but_not_unlimited() {
    let mut space = space(&[0, 0]);
    assert_eq!(space.take(Rank(0), b"cmd=get_"), []);
    assert_eq!(
        sent_to(&space.take(Rank(0), b"appnum\ncmd=get_appnum\ncmd"), 0)
            .lines()
            .count(),
        2
    );
    assert_eq!(
        sent_to(&space.take(Rank(0), b"=get_appnum\n"), 0),
        "cmd=appnum rc=0 appnum=0\n"
    );
    assert_eq!(
        space.take(Rank(0), b"hello\n"),
        [KeySpaceAction::Close(Rank(0))]
    );
    assert_eq!(space.take(Rank(1), &[b'x'; MAX_LINE_BYTES]), []);
    assert_eq!(space.take(Rank(1), b"x"), [KeySpaceAction::Close(Rank(1))]);
    let long = format!(
        "cmd=put kvsname=job.3 key=k value={}",
        "v".repeat(MAX_VALUE_BYTES + 1)
    );
    assert_eq!(
        request(&mut space, 0, &long),
        "cmd=put_result rc=-1 msg=too_large\n"
    );
}

/// Fragments of valid requests, so that some random input is meaningful.
const WORDS: [&str; 12] = [
    "cmd=",
    "init pmi_version=1",
    "put",
    "get",
    "barrier_in",
    " kvsname=job.3",
    " key=",
    " value=",
    "mcmd=spawn",
    "endcmd",
    "\n",
    "abort ",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// No input causes a panic, and the stored bytes are bounded by the input.
    #[test]
    fn anything_may_be_sent(parts in vec((0u32..2, prop_oneof![
        (0..WORDS.len()).prop_map(|word| WORDS[word].as_bytes().to_vec()),
        vec(any::<u8>(), 0..40),
    ]), 0..60), replies in vec(vec(any::<u8>(), 0..40), 0..3)) {
        let mut space = space(&[0, 0, 1]);
        let mut sent = space.bytes;
        for (rank, bytes) in parts {
            sent += bytes.len();
            let acts = space.take(Rank(rank), &bytes);
            let answers: usize = acts.iter().map(|act| match act {
                KeySpaceAction::Send(_, bytes) => bytes.len(),
                _ => 0,
            }).sum();
            prop_assert!(answers <= sent * 40 + 400);
        }
        for reply in replies {
            sent += reply.len();
            space.fenced(Some(&reply));
        }
        prop_assert!(space.bytes <= sent && space.unsent.len() <= sent);
    }
}
