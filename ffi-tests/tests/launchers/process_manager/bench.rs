//! A process manager, and generations of the program `world` under it.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use understudy_pmi::{
    GenerationName, LocalWorld, MpiKind, MpiLibrary, Namespace, NoPeers, Peers, Placement, Rank,
    RankAction, RankEvent, Server, ServerSettings,
};

/// Longest time of a step; ranks that still run then are killed.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Prefix of the names of hosts in the process manager.
const HOST: &str = "node";

pub struct Bench {
    pub server: Arc<Server>,
    events: Receiver<RankEvent>,
    program: PathBuf,
    mpi: MpiLibrary,
    pub directory: tempfile::TempDir,
    pub memory: tempfile::TempDir,
    job: String,
    here: usize,
    pub of_rank: Vec<usize>,
    number: u32,
    /// Environment variables of the ranks of this process manager.
    pub variables: Vec<(&'static str, String)>,
}

/// A running generation.
pub struct Run {
    pub generation: Namespace,
    pub world: LocalWorld,
    output: PathBuf,
}

impl Bench {
    /// Starts a process manager for `size` ranks on one host.
    pub fn start(program: &Path, size: usize) -> Bench {
        let job = format!("test-{}", std::process::id());
        Bench::of_several(program, job, 0, vec![0; size], Arc::new(NoPeers))
    }

    /// Starts a process manager for ranks on several hosts, one of which is this host.
    pub fn of_several(
        program: &Path,
        job: String,
        here: usize,
        of_rank: Vec<usize>,
        peers: Arc<dyn Peers>,
    ) -> Bench {
        let mpi = MpiLibrary::of(program).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let memory =
            tempfile::tempdir_in(understudy_formats::private_directories::SHARED_MEMORY_DIRECTORY)
                .unwrap();
        let settings = ServerSettings {
            mpi: mpi.clone(),
            directory: directory.path().to_owned(),
            host: format!("{HOST}{here}"),
            peers,
        };
        let (server, events) = Server::start(&settings).unwrap_or_else(|error| panic!("{error}"));
        let variables = match mpi.kind {
            // Shared memory and TCP, and ranks that yield the processor while they wait.
            MpiKind::OpenMpi => vec![
                ("OMPI_MCA_btl", "self,sm,tcp".to_owned()),
                ("OMPI_MCA_btl_tcp_if_include", "lo".to_owned()),
                ("OMPI_MCA_mtl", "^ofi".to_owned()),
                ("OMPI_MCA_pml", "ob1".to_owned()),
                ("OMPI_MCA_mpi_yield_when_idle", "1".to_owned()),
            ],
            MpiKind::Mpich | MpiKind::Debian | MpiKind::Standard => Vec::new(),
        };
        Bench {
            server: Arc::new(server),
            events,
            program: program.to_owned(),
            mpi,
            directory,
            memory,
            job,
            here,
            of_rank,
            number: 0,
            variables,
        }
    }

    pub fn kind(&self) -> MpiKind {
        self.mpi.kind
    }

    pub fn size(&self) -> u32 {
        self.of_rank.len() as u32
    }

    /// True if the ranks are on several hosts.
    fn is_apart(&self) -> bool {
        self.of_rank.iter().any(|host| *host != self.of_rank[0])
    }

    /// Computes the line that a rank of `world` prints.
    fn expected(&self, rank: u32) -> String {
        let size = self.size();
        let sum: u32 = (0..size).sum();
        let block = |of: u32| {
            let bytes = (0..1u32 << 20).map(|i| (i * 31 + of) as u8);
            bytes.fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| {
                (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
            })
        };
        let blocks = (0..size).map(block).fold(0, |all, one| all ^ one);
        // A rank's new place in its half is the number of greater ranks with its parity.
        let place = |of: u32| (of + 1..size).filter(|other| other % 2 == of % 2).count() as u32;
        let places: u32 = (0..size).map(|of| place(of) * (of + 1)).sum();
        let names = if self.is_apart() { -1 } else { 1 };
        // PMI-1 has no universe here, so that programs spawn as many processes as they like.
        let universe = match self.kind() {
            MpiKind::OpenMpi => size as i32,
            _ => -1,
        };
        format!(
            "rank {rank} of {size}: sum {sum}, blocks {blocks:016x}, places {places}, \
             names {names}, universe {universe}"
        )
    }

    /// Registers the next generation.
    pub fn begin(&mut self) -> Namespace {
        let hosts = (0..=self.of_rank.iter().max().copied().unwrap_or(0))
            .map(|host| format!("{HOST}{host}"));
        let generation = Namespace {
            name: GenerationName::new(&self.job, self.number).unwrap(),
            placement: Placement::new(hosts.collect(), self.of_rank.clone()).unwrap(),
            here: self.here,
            is_crowded: true,
            spawned: None,
        };
        self.number += 1;
        let segments = self.memory.path().join(generation.name.as_str());
        self.server.begin(&generation, &segments).unwrap();
        generation
    }

    /// Returns the command of a rank, with its output in a file.
    pub fn command(&self, output: &Path, arguments: &[&str]) -> Command {
        let stream = || {
            File::options()
                .create(true)
                .append(true)
                .open(output)
                .unwrap()
        };
        let mut command = Command::new(&self.program);
        command.args(arguments).stdout(stream()).stderr(stream());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub fn output(&self, generation: &Namespace) -> PathBuf {
        self.directory
            .path()
            .join(format!("output-{}", generation.name))
    }

    /// Registers the next generation and starts its processes.
    pub fn run(&mut self, arguments: &[&str]) -> Run {
        let generation = self.begin();
        let output = self.output(&generation);
        let world = LocalWorld::start(&self.server, &generation, |_| {
            self.command(&output, arguments)
        })
        .unwrap();
        Run {
            generation,
            world,
            output,
        }
    }

    /// Events of a generation that have been reported so far.
    pub fn events(&self, generation: &Namespace) -> Vec<(u32, RankAction)> {
        let events = self
            .events
            .try_iter()
            .filter(|event| event.generation == generation.name);
        events.map(|event| (event.rank.0, event.action)).collect()
    }

    /// Waits for an event of a generation and returns its rank.
    pub fn wait_for(&self, generation: &Namespace, is_wanted: impl Fn(&RankAction) -> bool) -> u32 {
        let until = Instant::now() + LIMIT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let event = self
                .events
                .recv_timeout(left)
                .expect("the event is reported in time");
            if event.generation == generation.name && is_wanted(&event.action) {
                return event.rank.0;
            }
        }
    }

    /// Ends a generation, its processes first; returns their exit statuses.
    pub fn end(&self, mut run: Run) -> BTreeMap<Rank, ExitStatus> {
        run.world.end();
        let ended = run.world.poll().clone();
        drop(run.world);
        self.server.end(&run.generation.name).unwrap();
        let _ = std::fs::remove_file(&run.output);
        ended
    }

    /// Runs a generation without failures and checks the ranks' events.
    pub fn undisturbed(&mut self) {
        let arguments: &[&str] = if self.is_apart() { &["apart"] } else { &[] };
        let mut run = self.run(arguments);
        let is_good = run.world.wait(LIMIT);
        run.assert_right(self, is_good);
        let events = self.events(&run.generation);
        let here: Vec<u32> = run.generation.ranks_here().map(|rank| rank.0).collect();
        for what in [RankAction::Connected, RankAction::Finalized] {
            let mut reported: Vec<u32> = events
                .iter()
                .filter(|event| event.1 == what)
                .map(|event| event.0)
                .collect();
            reported.sort_unstable();
            assert_eq!(reported, here, "{what:?}");
        }
        self.end(run);
    }

    /// Fails if files of ended generations are left.
    pub fn assert_nothing_left(&self) {
        let names = |directory: &Path| -> Vec<_> {
            let entries = std::fs::read_dir(directory).unwrap();
            entries
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect()
        };
        // The server of libpmix leaves a file by which tools find it, if there are any tools.
        let left = names(self.directory.path())
            .into_iter()
            .filter(|name| name.starts_with(&self.job));
        assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new());
        assert_eq!(names(self.memory.path()), Vec::<String>::new());
    }
}

impl Run {
    pub fn printed(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap()
    }

    /// Waits until the ranks of this node have printed `count` lines.
    pub fn wait_for_lines(&self, count: usize) {
        let until = Instant::now() + LIMIT;
        while self
            .printed()
            .lines()
            .filter(|line| line.starts_with("rank "))
            .count()
            < count
        {
            assert!(Instant::now() < until, "{}", self.printed());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Fails unless the ranks of this node have printed the right lines and nothing else.
    pub fn assert_right(&self, bench: &Bench, is_good: bool) {
        let printed = self.printed();
        let mut lines: Vec<&str> = printed.lines().collect();
        lines.sort_unstable();
        let ranks = self.generation.ranks_here();
        let expected: Vec<String> = ranks.map(|rank| bench.expected(rank.0)).collect();
        assert!(is_good, "{printed}");
        assert_eq!(lines, expected);
    }
}
