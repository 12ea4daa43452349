//! Transports of MPI libraries: UCX and libfabric survive the reset of the MPI side.
//!
//! This machine has no network device that writes into memory by itself. The pairs are therefore
//! those of an MPI library and a transport in software that this library can use here; ranks of one
//! node use the transport instead of shared memory.

use ffi_tests::native_runs::native;
use ffi_tests::open_mpi_4::with_open_mpi_4;
use ffi_tests::{Job, Kill, Launcher, Random, Trigger, Verdicts, intel_programs, paths};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Library {
    OpenMpi5,
    /// The distribution's Open MPI 4.1.
    OpenMpi4,
    Mpich,
    IntelMpi,
}

/// An MPI library, and variables that select a transport.
struct Pair {
    library: Library,
    transport: &'static str,
    variables: &'static [(&'static str, &'static str)],
}

/// Selects UCX in Open MPI 5, which would use it with a network device only.
const UCX_OF_5: [(&str, &str); 3] = [
    ("OMPI_MCA_pml", "ucx"),
    ("OMPI_MCA_opal_common_ucx_tls", "any"),
    ("OMPI_MCA_opal_common_ucx_devices", "any"),
];
/// Selects libfabric in Open MPI, which excludes providers in software.
const OFI: [(&str, &str); 4] = [
    ("OMPI_MCA_pml", "cm"),
    ("OMPI_MCA_mtl", "ofi"),
    ("OMPI_MCA_opal_common_ofi_provider_exclude", "none"),
    ("OMPI_MCA_mtl_ofi_provider_exclude", "none"),
];
/// Selects libfabric in MPICH, also between ranks of one node.
const OFI_OF_MPICH: [(&str, &str); 2] =
    [("MPIR_CVAR_CH4_NETMOD", "ofi"), ("MPIR_CVAR_NOLOCAL", "1")];

const PAIRS: [Pair; 16] = [
    Pair {
        library: Library::OpenMpi5,
        transport: "ucx",
        variables: &UCX_OF_5,
    },
    Pair {
        library: Library::OpenMpi5,
        transport: "ucx tcp",
        variables: &[
            UCX_OF_5[0],
            UCX_OF_5[1],
            UCX_OF_5[2],
            ("UCX_TLS", "tcp,self"),
        ],
    },
    Pair {
        library: Library::OpenMpi5,
        transport: "ucx with its windows",
        variables: &[
            UCX_OF_5[0],
            UCX_OF_5[1],
            UCX_OF_5[2],
            ("OMPI_MCA_osc", "ucx"),
        ],
    },
    Pair {
        library: Library::OpenMpi5,
        transport: "ofi tcp",
        variables: &[OFI[0], OFI[1], OFI[2], OFI[3], ("FI_PROVIDER", "tcp")],
    },
    Pair {
        library: Library::OpenMpi5,
        transport: "ofi tcp;ofi_rxm",
        variables: &[
            OFI[0],
            OFI[1],
            OFI[2],
            OFI[3],
            ("FI_PROVIDER", "tcp;ofi_rxm"),
        ],
    },
    Pair {
        library: Library::OpenMpi5,
        transport: "ofi sockets",
        variables: &[OFI[0], OFI[1], OFI[2], OFI[3], ("FI_PROVIDER", "sockets")],
    },
    Pair {
        library: Library::OpenMpi4,
        transport: "ofi tcp",
        variables: &[OFI[0], OFI[1], OFI[2], OFI[3], ("FI_PROVIDER", "tcp")],
    },
    Pair {
        library: Library::OpenMpi4,
        transport: "ucx",
        variables: &UCX_OF_5,
    },
    Pair {
        library: Library::Mpich,
        transport: "ucx",
        variables: &[("MPIR_CVAR_CH4_NETMOD", "ucx"), ("MPIR_CVAR_NOLOCAL", "1")],
    },
    Pair {
        library: Library::Mpich,
        transport: "ofi tcp",
        variables: &[OFI_OF_MPICH[0], OFI_OF_MPICH[1], ("FI_PROVIDER", "tcp")],
    },
    Pair {
        library: Library::Mpich,
        transport: "ofi tcp;ofi_rxm",
        variables: &[
            OFI_OF_MPICH[0],
            OFI_OF_MPICH[1],
            ("FI_PROVIDER", "tcp;ofi_rxm"),
        ],
    },
    Pair {
        library: Library::Mpich,
        transport: "ofi shm",
        variables: &[OFI_OF_MPICH[0], OFI_OF_MPICH[1], ("FI_PROVIDER", "shm")],
    },
    Pair {
        library: Library::Mpich,
        transport: "ofi sockets",
        variables: &[OFI_OF_MPICH[0], OFI_OF_MPICH[1], ("FI_PROVIDER", "sockets")],
    },
    Pair {
        library: Library::IntelMpi,
        transport: "shm",
        variables: &[("I_MPI_FABRICS", "shm")],
    },
    Pair {
        library: Library::IntelMpi,
        transport: "ofi tcp",
        variables: &[("I_MPI_FABRICS", "ofi"), ("FI_PROVIDER", "tcp")],
    },
    Pair {
        library: Library::IntelMpi,
        transport: "ofi shm",
        variables: &[("I_MPI_FABRICS", "ofi"), ("FI_PROVIDER", "shm")],
    },
];

/// A program with arguments for about a hundred lines of output.
struct Program {
    name: &'static str,
    is_example: bool,
    arguments: &'static [&'static str],
    files: &'static [&'static str],
}

/// Halo exchange; messages of many sizes; windows.
const PROGRAMS: [Program; 3] = [
    Program {
        name: "heat2d",
        is_example: true,
        arguments: &[
            "800",
            "800",
            "2000",
            "heat.field",
            "--print-every",
            "20",
            "--log",
            "heat.log",
        ],
        files: &["heat.field", "heat.log"],
    },
    Program {
        name: "traffic",
        is_example: false,
        arguments: &["2000", "4000000"],
        files: &[],
    },
    Program {
        name: "puts",
        is_example: false,
        arguments: &["2000", "60000"],
        files: &[],
    },
];

/// Lines that each program prints while it communicates.
const LINES: usize = 100;
const WORKERS: u32 = 2;

impl Program {
    /// Compiles the program; `None` if the library is not installed.
    fn path(&self, library: Library) -> Option<PathBuf> {
        match (library, self.is_example) {
            (Library::OpenMpi5 | Library::OpenMpi4, true) => Some(paths::example(self.name)),
            (Library::OpenMpi5 | Library::OpenMpi4, false) => Some(paths::test_program(self.name)),
            (Library::Mpich, true) => paths::mpich_example(self.name),
            (Library::Mpich, false) => paths::mpich_program(self.name),
            (Library::IntelMpi, true) => {
                intel_programs::program(&format!("../../c-examples/{}.c", self.name))
            }
            (Library::IntelMpi, false) => intel_programs::program(&format!("{}.c", self.name)),
        }
    }

    fn job(&self, library: Library) -> Option<Job> {
        let path = self.path(library)?;
        // Over UCX, MPICH 4.0 may never complete a receive from any source.
        let arguments: Vec<&str> = match library {
            Library::Mpich if self.name == "traffic" => [self.arguments, &["named"]].concat(),
            _ => self.arguments.to_vec(),
        };
        let job = || Job::new(&path, &arguments);
        let job = match library {
            Library::OpenMpi5 => job().launched_by(Launcher::Ckptd),
            Library::OpenMpi4 => with_open_mpi_4(job())?,
            Library::Mpich => job().of_mpich(),
            Library::IntelMpi => intel_programs::job(&path, &arguments),
        };
        Some(
            job.workers(WORKERS)
                .interval("40calls")
                .limit(Duration::from_secs(400)),
        )
    }
}

/// Runs a program in which random workers are killed at random moments, `kills` times.
///
/// Each kill hits a worker that has not finished the program, and each killed worker, and no other
/// process, is replaced.
fn survives(pair: &Pair, program: &Program, kills: u32, random: &mut Random) {
    let Some(undisturbed) = program.job(pair.library).map(native) else {
        return;
    };
    let mut job = program.job(pair.library).expect("the program is compiled");
    for (name, value) in pair.variables {
        job = job.env(name, value);
    }
    // A spare at the front of the queue replaces the next killed worker.
    let mut processes: Vec<u32> = (0..WORKERS).collect();
    let (mut victims, mut survivor) = (Vec::new(), None);
    let distance = LINES * 9 / 10 / kills as usize;
    for kill in 0..kills {
        let worker = random.below(u64::from(WORKERS)) as u32;
        let line = 1 + kill as usize * distance + random.below(distance as u64 / 2) as usize;
        let delay = Duration::from_micros(random.below(3000));
        let at = survivor.map_or(Trigger::Lines(line), |rank| Trigger::LinesAfterResume {
            lines: line,
            rank,
            recovery: kill,
        });
        let process = &mut processes[worker as usize];
        job = job.kill(Kill::at(*process, at).after(delay));
        *process = WORKERS + kill;
        survivor = Some(processes[1 - worker as usize]);
        victims.push(worker);
    }
    let outcome = job.spares(kills).run();
    println!(
        "{:?}, {}, {}: {} of {kills} kills in {:.1} s",
        pair.library,
        pair.transport,
        program.name,
        outcome.takeovers().len(),
        outcome.wall.as_secs_f64()
    );
    outcome.assert_recovered(&undisturbed, program.files, &victims);
}

/// Kills in one job of a sweep.
const KILLS_OF_JOB: u32 = 10;

/// Returns the number of jobs for each pair; with the default of `make sweep`, 200 kills.
fn sweep_jobs() -> usize {
    let times = std::env::var("FFI_TESTS_TIMES").ok();
    times.and_then(|times| times.parse().ok()).unwrap_or(40) / 2
}

fn pair(library: Library, transport: &str) -> &'static Pair {
    let is_pair = |pair: &&Pair| pair.library == library && pair.transport == transport;
    PAIRS.iter().find(is_pair).expect("a row of the table")
}

/// Kills workers of each program in turn, with each transport of a library.
fn sweep(library: Library) {
    let mut random = Random::announced("providers");
    let mut verdicts = Verdicts::default();
    for pair in PAIRS.iter().filter(|pair| pair.library == library) {
        for run in 0..sweep_jobs() {
            let program = &PROGRAMS[run % PROGRAMS.len()];
            let what = format!("{}, run {run}, {}", pair.transport, program.name);
            verdicts.judge(&what, || {
                survives(pair, program, KILLS_OF_JOB, &mut random);
            });
        }
    }
    verdicts.assert_all_good();
}

/// Kills two workers.
fn survives_two_kills(library: Library, transport: &str, program: &Program) {
    let mut random = Random::announced(transport);
    survives(pair(library, transport), program, 2, &mut random);
}

#[test]
fn ucx_of_open_mpi_survives_reinitialisation() {
    survives_two_kills(Library::OpenMpi5, "ucx", &PROGRAMS[0]);
}

/// Messages are in flight at checkpoints.
#[test]
fn libfabric_of_open_mpi_survives_reinitialisation() {
    survives_two_kills(Library::OpenMpi5, "ofi tcp", &PROGRAMS[1]);
}

/// Fails unless a receive that libfabric ends, since its sender dies, is a failure.
///
/// The receive belongs to a request of the program, or to a collective call.
fn assert_not_complete(library: Library, transport: &str) {
    for arguments in [&["6"][..], &["6", "broadcast"]] {
        let program = Program {
            name: "one_way",
            is_example: false,
            arguments,
            files: &[],
        };
        let make = || program.job(library).map(|job| job.interval("2calls"));
        let (Some(undisturbed), Some(job)) = (make().map(native), make()) else {
            return;
        };
        let variables = pair(library, transport).variables.iter();
        let job = variables.fold(job, |job, (name, value)| job.env(name, value));
        // Rank 1 dies after it has begun to send the third message.
        let outcome = job.fault("kill rank=1 at=call:11").run();
        outcome.assert_recovered(&undisturbed, &[], &[1]);
    }
}

#[test]
fn a_receive_that_libfabric_cancels_is_not_complete() {
    assert_not_complete(Library::OpenMpi5, "ofi tcp;ofi_rxm");
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_receive_of_mpich_that_libfabric_cancels_is_not_complete() {
    assert_not_complete(Library::Mpich, "ofi tcp;ofi_rxm");
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_receive_of_mpich_that_ucx_ends_is_not_complete() {
    assert_not_complete(Library::Mpich, "ucx");
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_receive_of_intel_mpi_that_libfabric_cancels_is_not_complete() {
    assert_not_complete(Library::IntelMpi, "ofi tcp");
}

/// The provider leaves shared memory of each process that is killed or reset.
#[test]
fn libfabric_of_mpich_survives_reinitialisation() {
    survives_two_kills(Library::Mpich, "ofi shm", &PROGRAMS[0]);
}

/// Components of this library open UCX after the library itself.
#[test]
#[ignore = "a variant: make test-all"]
fn ucx_of_open_mpi_4_survives_reinitialisation() {
    survives_two_kills(Library::OpenMpi4, "ucx", &PROGRAMS[0]);
}

/// Writes copies of files with another name of equal length in them.
fn rename_in_copies(directory: &Path, files: &[(&str, &str)], names: [&[u8]; 2]) {
    for (file, copy) in files {
        let mut bytes = fs::read(file).expect("a file of Open MPI 4.1");
        let length = names[0].len();
        let at = |bytes: &[u8]| bytes.windows(length).position(|it| it == names[0]);
        while let Some(start) = at(&bytes) {
            bytes[start..start + length].copy_from_slice(names[1]);
        }
        fs::write(directory.join(copy), bytes).expect("there is room for temporary files");
    }
}

/// Packages of Python contain UCX under another name, which they write into Open MPI's libraries.
#[test]
#[ignore = "a variant: make test-all"]
fn ucx_with_another_name_makes_progress() {
    const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";
    let program = &PROGRAMS[0];
    let make = || program.job(Library::OpenMpi4);
    let (Some(undisturbed), Some(job)) = (make().map(native), make()) else {
        return;
    };
    let work = tempfile::tempdir().expect("there is room for temporary files");
    let components = format!("{LIBRARIES}/openmpi/lib/openmpi3");
    let [ucx, common] = ["libucp.so.0", "libmca_common_ucx.so.40"]
        .map(|name| (format!("{LIBRARIES}/{name}"), name));
    let component = (format!("{components}/mca_pml_ucx.so"), "mca_pml_ucx.so");
    let files = [
        (&*ucx.0, "libucq.so.0"),
        (&*common.0, common.1),
        (&*component.0, component.1),
    ];
    rename_in_copies(work.path(), &files, [b"libucp.so.0", b"libucq.so.0"]);
    let path = work.path().display();
    let variables = pair(Library::OpenMpi4, "ucx").variables.iter();
    let job = variables.fold(job, |job, (name, value)| job.env(name, value));
    let outcome = job
        .env(
            "LD_LIBRARY_PATH",
            &format!("{path}:{LIBRARIES}/openmpi/lib:{LIBRARIES}"),
        )
        .env(
            "OMPI_MCA_mca_base_component_path",
            &format!("{path}:{components}"),
        )
        .kill(Kill::at(1, Trigger::Lines(20)))
        .run();
    outcome.assert_recovered(&undisturbed, program.files, &[1]);
}

#[test]
#[ignore = "a variant: make test-all"]
fn libfabric_of_intel_mpi_survives_reinitialisation() {
    survives_two_kills(Library::IntelMpi, "ofi tcp", &PROGRAMS[0]);
}

#[test]
#[ignore = "many kills: make sweep"]
fn open_mpi_5_survives_many_kills() {
    sweep(Library::OpenMpi5);
}

#[test]
#[ignore = "many kills: make sweep"]
fn open_mpi_4_survives_many_kills() {
    sweep(Library::OpenMpi4);
}

#[test]
#[ignore = "many kills: make sweep"]
fn mpich_survives_many_kills() {
    sweep(Library::Mpich);
}

#[test]
#[ignore = "many kills: make sweep"]
fn intel_mpi_survives_many_kills() {
    sweep(Library::IntelMpi);
}
