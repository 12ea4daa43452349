//! Test programs, most of them with arguments for runs of one or two seconds.

use crate::comparisons::Canonical;
use crate::job::Job;
use crate::native_runs::native;
use crate::outcome::Outcome;
use crate::{Requirement, paths, skip};
use regex::bytes::Regex;
use std::path::PathBuf;
use std::sync::OnceLock;

/// A program with the output that is compared.
pub struct TestProgram {
    pub name: &'static str,
    /// Number of lines of standard output that are printed together at the end.
    pub tail: usize,
    pub files: &'static [&'static str],
    /// Removes output that differs between undisturbed runs.
    pub canonical: Canonical,
    /// Makes a job of the program.
    pub make: fn() -> Job,
}

impl TestProgram {
    /// Returns a job of the program.
    pub fn job(&self) -> Job {
        (self.make)()
    }

    /// Returns the number of lines that the program prints before those at the end.
    ///
    /// `undisturbed` is the outcome of the program without a failure.
    pub fn lines_before_end(&self, undisturbed: &Outcome) -> usize {
        let ends = undisturbed.stdout.iter().filter(|&&byte| byte == b'\n');
        ends.count() - self.tail
    }

    /// Runs a job; fails unless its output equals that of an undisturbed run.
    ///
    /// Processes or files that the job leaves behind are failures as well.
    #[track_caller]
    pub fn assert_undisturbed(&self, job: Job) -> Outcome {
        let undisturbed = self.job().workers(job.worker_count());
        let outcome = job.run();
        outcome.assert_success();
        outcome.assert_like(&native(undisturbed), self.files);
        outcome.assert_nothing_left();
        outcome
    }
}

fn unchanged(bytes: &[u8]) -> Vec<u8> {
    bytes.to_vec()
}

/// Jacobi iterations on `side` x `side` cells, with a checkpoint every 0.1 s.
pub fn heat2d_of(side: &str, iterations: &str, print_every: &str) -> Job {
    let output = [
        "heat.field",
        "--print-every",
        print_every,
        "--log",
        "heat.log",
    ];
    let arguments = [&[side, side, iterations], &output[..]].concat();
    Job::new(paths::example("heat2d"), &arguments).interval("0.1s")
}

/// Arguments of [`heat2d`].
pub const HEAT2D: [&str; 8] = [
    "240",
    "240",
    "1200",
    "heat.field",
    "--print-every",
    "30",
    "--log",
    "heat.log",
];

/// Jacobi iterations in C: halo exchange, one collective per iteration.
///
/// The checkpoint interval is a number of calls, so that the number of checkpoints does not depend
/// on the speed of the machine.
pub fn heat2d() -> TestProgram {
    TestProgram {
        name: "heat2d",
        tail: 1,
        files: &["heat.field", "heat.log"],
        canonical: unchanged,
        make: || Job::new(paths::example("heat2d"), &HEAT2D).interval("50calls"),
    }
}

/// [`heat2d`] with more cells and iterations, and checkpoints at intervals of time.
pub fn longer_heat2d() -> TestProgram {
    TestProgram {
        name: "heat2d, longer",
        make: || heat2d_of("300", "15000", "250"),
        ..heat2d()
    }
}

/// [`heat2d`] with a field whose replicas take long to send.
pub fn large_heat2d() -> TestProgram {
    TestProgram {
        name: "heat2d, large",
        make: || heat2d_of("1200", "120", "5").interval("12calls"),
        ..heat2d()
    }
}

/// [`heat2d`] with few iterations, for ranks whose communication is slow.
pub fn short_heat2d() -> TestProgram {
    TestProgram {
        name: "heat2d, short",
        make: || heat2d_of("200", "300", "6"),
        ..heat2d()
    }
}

/// [`heat2d`] with three workers, in runs of at least 30 s.
pub fn long_heat2d() -> TestProgram {
    TestProgram {
        name: "heat2d, long",
        make: || {
            heat2d_of("200", "1200000", "20000")
                .workers(3)
                .interval("50ms")
        },
        ..heat2d()
    }
}

/// Spectral elements in C++: nearly all of the memory is set up once.
pub fn sem() -> TestProgram {
    TestProgram {
        name: "sem",
        tail: 1,
        files: &["sem.solution"],
        make: || {
            Job::new(
                paths::example("sem"),
                &["4", "4", "12", "10", "sem.solution"],
            )
            .interval("0.1s")
        },
        ..heat2d()
    }
}

/// A program whose set-up phase has side effects: files, directories, data that vary.
///
/// `programs/setup.c` describes its arguments.
pub fn setup(make: fn() -> Job) -> TestProgram {
    TestProgram {
        name: "setup",
        files: &[
            "made.0", "made.1", "made.2", "made.3", "grown.0", "grown.1", "grown.2", "grown.3",
        ],
        make,
        ..heat2d()
    }
}

/// A program that writes to standard output only.
pub fn prints(name: &'static str, make: fn() -> Job) -> TestProgram {
    TestProgram {
        name,
        files: &[],
        make,
        ..heat2d()
    }
}

fn cg_job(program: &str) -> Job {
    Job::new(
        paths::example(program),
        &["150", "150", "7", "cg.solution", "--max-iterations", "35"],
    )
    .interval("200calls")
}

/// Conjugate gradients in C++: exceptions, several communicators, a library.
pub fn cg() -> TestProgram {
    TestProgram {
        name: "cg",
        tail: 1,
        files: &["cg.solution"],
        canonical: unchanged,
        make: || cg_job("cg"),
    }
}

/// [`cg`] with few iterations.
pub fn short_cg() -> TestProgram {
    TestProgram {
        name: "cg, short",
        make: || {
            let arguments = ["100", "100", "7", "cg.solution", "--max-iterations", "25"];
            Job::new(paths::example("cg"), &arguments).interval("0.1s")
        },
        ..cg()
    }
}

/// [`cg`] with its library as a shared object.
pub fn cg_shared() -> TestProgram {
    TestProgram {
        name: "cg-shared",
        make: || cg_job("cg-shared"),
        ..cg()
    }
}

/// A Lennard-Jones melt; every log line is flushed, every 20th configuration is dumped.
pub const LAMMPS_INPUT: &str = "\
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 8 0 8 0 8
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify delay 5 every 1
fix 1 all nve
dump 1 all custom 20 melt.dump id x y z
dump_modify 1 sort id
thermo 5
thermo_modify flush yes
run 200
";

fn lammps_job() -> Job {
    lammps_with(distribution_lammps(), &[], LAMMPS_INPUT)
}

/// A LAMMPS job of few steps, for failures at each of its MPI calls.
pub fn short_lammps() -> Job {
    lammps_with(
        distribution_lammps(),
        &[],
        &LAMMPS_INPUT.replace("run 200", "run 5"),
    )
    .interval("5calls")
}

/// The distribution's LAMMPS, which writes its configurations by MPI-IO.
///
/// Returns `None`, and prints the reason, if LAMMPS is not installed.
pub fn lammps_by_mpi_io() -> Option<TestProgram> {
    Some(TestProgram {
        name: "LAMMPS, by MPI-IO",
        make: || {
            let dumps = LAMMPS_INPUT
                .replace("dump 1 all custom 20", "dump 1 all custom/mpiio 5")
                .replace("dump_modify 1 sort id\n", "restart 25 melt.restart.mpiio\n");
            lammps_with(distribution_lammps(), &[], &dumps)
        },
        files: &["melt.log", "melt.dump", "melt.restart.mpiio.200"],
        ..lammps()?
    })
}

fn distribution_lammps() -> PathBuf {
    paths::on_path("lmp").unwrap_or_else(|| PathBuf::from("lmp"))
}

fn lammps_with(program: PathBuf, options: &[&str], input: &str) -> Job {
    Job::new(
        program,
        &[&["-in", "melt.in", "-log", "melt.log"], options].concat(),
    )
    .input("melt.in", input)
    .interval("30calls")
    .env("OMP_NUM_THREADS", "1")
}

/// Replacements in [`LAMMPS_INPUT`] that charge the particles.
///
/// Fourier transforms compute the long-range forces.
const IONS: &[(&str, &str)] = &[
    ("0 8 0 8 0 8", "0 5 0 5 0 5"),
    ("atom_style atomic", "atom_style charge"),
    ("create_box 1", "create_box 2"),
    (
        "mass 1 1.0",
        "mass * 1.0\nset type 1 type/fraction 2 0.5 12393\nset type 1 charge 0.5\nset type 2 \
         charge -0.5",
    ),
    ("pair_style lj/cut 2.5", "pair_style lj/cut/coul/long 2.5"),
    (
        "pair_coeff 1 1 1.0 1.0 2.5",
        "pair_coeff * * 1.0 1.0 2.5\nkspace_style pppm 1.0e-3\nkspace_modify mesh 12 12 12",
    ),
    ("dump 1 all custom 20", "dump 1 all custom 5"),
    ("thermo 5", "thermo 1"),
    ("run 200", "run 40"),
];

/// LAMMPS for MPICH, with two OpenMP threads in each rank.
///
/// The threads compute pair styles and Fourier transforms.
///
/// Returns `None`, and prints the reason, if this LAMMPS is not installed.
pub fn threaded_lammps() -> Option<TestProgram> {
    paths::threaded_lammps()?;
    Some(TestProgram {
        name: "LAMMPS, with threads",
        make: || {
            let ions = |text: String, (from, to): &(&str, &str)| text.replace(from, to);
            let program = paths::threaded_lammps().expect("LAMMPS is installed");
            let library = paths::mpich().with_file_name("lib");
            let input = IONS.iter().fold(LAMMPS_INPUT.to_owned(), ions);
            lammps_with(program, &["-sf", "omp", "-pk", "omp", "2"], &input)
                .of_mpich()
                .workers(2)
                .interval("40calls")
                .env("LD_LIBRARY_PATH", &library.to_string_lossy())
                // There are more threads than processors, so waiting threads must not spin.
                .env("OMP_WAIT_POLICY", "passive")
        },
        ..lammps_case()
    })
}

/// LAMMPS, an unmodified program of the distribution.
///
/// Returns `None`, and prints the reason, if LAMMPS is not installed.
pub fn lammps() -> Option<TestProgram> {
    if paths::on_path("lmp").is_none() {
        skip(
            Requirement::Lammps,
            "LAMMPS (lmp) is not installed; `make lammps` installs it",
        );
        return None;
    }
    Some(lammps_case())
}

fn lammps_case() -> TestProgram {
    TestProgram {
        name: "LAMMPS",
        tail: 34,
        files: &["melt.log", "melt.dump"],
        canonical: without_timing,
        make: lammps_job,
    }
}

/// Patterns of the lines of LAMMPS that contain times.
const TIMING: &[&str] = &[
    r"^  create_atoms CPU = ",
    r"^Loop time of ",
    r"^Performance: ",
    r"% CPU use with ",
    r"^(Pair|Kspace|Neigh|Comm|Output|Modify|Other) +\|",
    r"^Total wall time: ",
];

fn without_timing(bytes: &[u8]) -> Vec<u8> {
    static PATTERNS: OnceLock<Vec<Regex>> = OnceLock::new();
    let patterns = PATTERNS.get_or_init(|| {
        TIMING
            .iter()
            .map(|pattern| Regex::new(pattern).expect("a valid pattern"))
            .collect()
    });
    let lines = bytes.split_inclusive(|&byte| byte == b'\n');
    lines
        .filter(|line| !patterns.iter().any(|pattern| pattern.is_match(line)))
        .flatten()
        .copied()
        .collect()
}
