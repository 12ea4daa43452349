//! The table of all settings.

use crate::setting::{Form, SECRET, Setting};

/// Every setting, in the order of the reference page.
pub const SETTINGS: &[Setting] = &[
    Setting {
        variable: "UNDERSTUDY_SPARES",
        default: "1",
        meaning: "Number of spares: the last ranks, which the program does not see. Without a \
            spare left, a new process replaces a failed worker",
        form: Form::Value("S"),
    },
    Setting {
        variable: "UNDERSTUDY_COPIES",
        default: "auto",
        meaning: "Redundancy of each worker's memory: `1` or `2` replicas at other workers (with 2 \
            any two nodes may fail at once, for twice the traffic and the memory at buddies), or \
            `xor:G`, parity over groups of at most G workers (one worker of each group may fail at \
            a time, for 1/(G - 1) of the memory). `auto` is `1`, but no replica at all if all \
            workers are on one node: the own replica outlives its process, and another one would \
            not outlive the node",
        form: Form::Value("auto|1|2|xor:G"),
    },
    Setting {
        variable: "UNDERSTUDY_SHARED_PAGES",
        default: "auto",
        meaning: "Treatment of pages that the buddy has itself, with equal content at an equal \
            address (tables that all ranks have read): `auto` leaves them out of the replica if a \
            sample, at every sixteenth checkpoint, contains a tenth of them; `1` asks the buddy at \
            every checkpoint; `0` sends all pages. Not with parity",
        form: Form::Value("auto|0|1"),
    },
    Setting {
        variable: "UNDERSTUDY_BUDDY_OFFSET",
        default: "workers per node",
        meaning: "Distance of buddies: worker (r + K) mod W stores the replica of worker r, where \
            W is the number of workers. Another worker near it does if these two are in one \
            failure domain",
        form: Form::Value("K"),
    },
    Setting {
        variable: "UNDERSTUDY_DOMAIN",
        default: "none",
        meaning: "File with lines `host domain`: hosts of one domain fail together, so replicas \
            are stored in another one. Without the file, every node is a domain",
        form: Form::Value("FILE"),
    },
    Setting {
        variable: "UNDERSTUDY_INTERVAL",
        default: "10s",
        meaning: "Time between checkpoints (`10s`, `500ms`), number of collectives over all \
            workers (`100calls`), `off`, or `auto`: Daly's formula, from the measured cost of \
            checkpoints and from `UNDERSTUDY_MTBF`",
        form: Form::Value("INTERVAL"),
    },
    Setting {
        variable: "UNDERSTUDY_MTBF",
        default: "24h",
        meaning: "Expected mean time between failures of the whole job (`6h`, `30d`) at the start, \
            for `UNDERSTUDY_INTERVAL=auto`. The job corrects the value after failures",
        form: Form::Value("TIME"),
    },
    Setting {
        variable: "UNDERSTUDY_WARNINGS",
        default: "none",
        meaning: "File that announces failures each time it is written: `mtbf=10m`, `checkpoint`. \
            Without this setting, `understudy warn` writes a file of the job",
        form: Form::Value("FILE"),
    },
    Setting {
        variable: "UNDERSTUDY_TRACKING",
        default: "auto",
        meaning: "Detection of modified pages: `pagemap` (userfaultfd and PAGEMAP_SCAN), `compare` \
            (with the last copy), `landings` (`pagemap`, and `compare` for memory that MPI calls \
            receive to: for a network device that writes into memory by itself and has been \
            accepted with this value), or `auto`",
        form: Form::Value("HOW"),
    },
    Setting {
        variable: "UNDERSTUDY_FABRIC",
        default: "auto",
        meaning: "Network of the MPI library between nodes: `native` is the library's own choice, \
            such as InfiniBand, and checkpoints then compare all memory if the node has a device \
            that writes into memory by itself, unless UNDERSTUDY_TRACKING is `landings`; `tcp` is \
            TCP; `auto` is `tcp`, and a message names devices that are not used. Selections of \
            yours (`OMPI_MCA_pml`, `UCX_TLS`, `FI_PROVIDER`) take precedence",
        form: Form::Value("auto|native|tcp"),
    },
    Setting {
        variable: "UNDERSTUDY_STATIC",
        default: "image",
        meaning: "Way to restore data that the program sets up once: `image` keeps it in replicas; \
            `replay` re-runs the set-up from its log; `disk` writes it once to UNDERSTUDY_DISK and \
            reads it from there; `auto` uses `replay` if that restores at least half of the data, \
            else `image`",
        form: Form::Value("HOW"),
    },
    Setting {
        variable: "UNDERSTUDY_INIT_END",
        default: "auto",
        meaning: "End of the set-up log, at the first checkpoint after: `auto` (calls repeat, or \
            the first interval is over), `MPI_Allreduce#120` (120 calls of that procedure), \
            `pcontrol:1` (MPI_Pcontrol with this level), `function:main_loop` (entry of a \
            function; in C++ `Solver::run`, with its arguments if there are several), `time:30s`",
        form: Form::Value("RULE"),
    },
    Setting {
        variable: "UNDERSTUDY_NEW_PHASE",
        default: "pcontrol:2",
        meaning: "Call of MPI_Pcontrol by which all workers announce that data will be set up anew \
            (a mesh that is refined), with `replay`. The next checkpoint begins another set-up \
            log, which ends by the rule of the first one and replaces it. `off`: none",
        form: Form::Value("CALL"),
    },
    Setting {
        variable: "UNDERSTUDY_JOURNAL_LIMIT",
        default: "25%",
        meaning: "Limit of the set-up log: a part of the program's memory (`25%`, but at least 4M) \
            or a size (`64M`). Beyond it, replicas hold everything",
        form: Form::Value("LIMIT"),
    },
    Setting {
        variable: "UNDERSTUDY_REHEARSE",
        default: "off",
        meaning: "Workers whose set-up is replayed for comparison in a process beside another \
            worker: `all`, `sample` (every fourth worker) or `off`. With UNDERSTUDY_STATIC=image \
            the only effect is a line in the event files. With UNDERSTUDY_STATIC=replay, replicas \
            of workers that were not compared keep all data; `off` is treated as `all` then",
        form: Form::Variable,
    },
    Setting {
        variable: "UNDERSTUDY_DISK",
        default: "none",
        meaning: "Directory, equal for all ranks, to which checkpoints are written, so that the \
            whole job can be restarted",
        form: Form::Value("DIR"),
    },
    Setting {
        variable: "UNDERSTUDY_DISK_EVERY",
        default: "1",
        meaning: "Distance of checkpoints that are written to disk: 1 is every checkpoint. While \
            one is being written, no other is begun. A checkpoint that `understudy warn` requests \
            is written only if it is due",
        form: Form::Value("N"),
    },
    Setting {
        variable: "UNDERSTUDY_RUNTIME_DIR",
        default: "/dev/shm",
        meaning: "Existing directory of each node for `understudy-UID`, which contains files that \
            outlive a process. By default `/dev/shm`, or `/run/user/UID` if another user has taken \
            the name or `/dev/shm` cannot be used",
        form: Form::Variable,
    },
    Setting {
        variable: "UNDERSTUDY_RESTART",
        default: "0",
        meaning: "1: the job continues from the last complete checkpoint in UNDERSTUDY_DISK, and \
            stops if there is none; `auto`: it starts from the beginning then",
        form: Form::SwitchOr("auto"),
    },
    Setting {
        variable: "UNDERSTUDY_CHECKPOINT_ON",
        default: "none",
        meaning: "Signals that request a checkpoint in UNDERSTUDY_DISK at once, whichever process \
            of the job gets them: `TERM` stops the job with status 85 when the checkpoint is on \
            disk, `USR1` and `USR2` let it continue. After GRACE (`@30s` is the default) TERM \
            stops the job with the last checkpoint that is there",
        form: Form::Value("SIGNALS[@GRACE]"),
    },
    Setting {
        variable: "UNDERSTUDY_TIME_LIMIT",
        default: "none",
        meaning: "End of the granted time: a duration from the start (`12h`), or `auto`, which \
            asks the batch system (only with `understudy run`). Before it, a checkpoint is written \
            to UNDERSTUDY_DISK, and the job stops with status 85",
        form: Form::Value("auto|TIME"),
    },
    Setting {
        variable: "UNDERSTUDY_HANG_AFTER",
        default: "5min",
        meaning: "Time without any movement after which the job is reported as hanging (`10min`), \
            or `off`. A stopped rank is reported after 30 s, one that the kernel blocks after 60 s",
        form: Form::Value("TIME|off"),
    },
    Setting {
        variable: "UNDERSTUDY_ON_HANG",
        default: "report",
        meaning: "`replace`: ranks that are stopped or blocked, or for which all others wait, are \
            killed and replaced; `report`: they are only reported",
        form: Form::Value("report|replace"),
    },
    Setting {
        variable: "UNDERSTUDY_ANYWHERE",
        default: "1",
        meaning: "0: checkpoints are taken only at collectives over all workers; 1: if none occurs \
            for three intervals, also at any communication call of the workers",
        form: Form::Value("0|1"),
    },
    Setting {
        variable: "UNDERSTUDY_THREADS",
        default: "1",
        meaning: "0: a program that creates threads loses its protection; 1: threads are saved and \
            restored, and may call MPI if the program has asked for MPI_THREAD_SERIALIZED or more; \
            serialized: as if it had asked for that",
        form: Form::Value("0|1|serialized"),
    },
    Setting {
        variable: "UNDERSTUDY_REPLENISH",
        default: "0",
        meaning: "1: another process is started as a spare when a spare has replaced a worker or \
            has failed",
        form: Form::Switch,
    },
    Setting {
        variable: "UNDERSTUDY_NODE_TIMEOUT",
        default: "60s",
        meaning: "Time for which a host that does not answer, or whose node manager is stopped, is \
            waited for before it counts as lost, at least `5s`. Its processes are killed there by \
            timers of the kernel 1 s and 2 % of the time earlier. A host whose connections break \
            is lost at once. The first host's value counts. A guardian or node manager that does \
            not answer on its own host is killed after this time",
        form: Form::Value("TIME"),
    },
    Setting {
        variable: "UNDERSTUDY_PORTS",
        default: "any",
        meaning: "Range of TCP ports (`50000-50099`) to which other hosts of the job connect, on \
            the first host: its node manager listens at the first free one, and so does the \
            daemon of `understudy run`. The MPI library has settings of its own for its ports",
        form: Form::Value("FIRST-LAST"),
    },
    Setting {
        variable: "UNDERSTUDY_DAEMON",
        default: "none",
        meaning: "Daemon that may choose the spare for a failed worker: path of its socket, or \
            `tcp:ADDRESS:PORT`. Without its answer, or if the failed worker's replica is left on \
            its node, the rules of the job apply",
        form: Form::Value("WHERE"),
    },
    Setting {
        variable: "UNDERSTUDY_DAEMON_TOKEN",
        default: "none",
        meaning: "File (mode 0600, on every node) with the token that the daemon demands over TCP",
        form: Form::Value("FILE"),
    },
    Setting {
        variable: "UNDERSTUDY_REQUIRE",
        default: "0",
        meaning: "1: a job that cannot be protected, or loses its protection, stops with status \
            78; 0: it runs unprotected; `start` (default of `understudy run`): as 1, but a running \
            job that gets short of memory continues",
        form: Form::Variable,
    },
    Setting {
        variable: "UNDERSTUDY_POISON",
        default: "0",
        meaning: "1: test of claims that the program makes through understudy.h: discarded memory \
            (`understudy_discard`) is overwritten at once; recomputed memory \
            (`understudy_recompute`) and undone steps (`understudy_reversible`) are compared at \
            every checkpoint",
        form: Form::Variable,
    },
    Setting {
        variable: "UNDERSTUDY_DISABLE",
        default: "0",
        meaning: "1: understudy has no effect at all",
        form: Form::Variable,
    },
    Setting {
        variable: "UNDERSTUDY_LATE",
        default: "unset",
        meaning: "Programs that do not need libmpi from the start but may load it later: 1 \
            prepares all; 0 none; unset: those that the launcher itself has started, and \
            interpreters",
        form: Form::Variable,
    },
    Setting {
        variable: SECRET,
        default: "made by `understudy run`",
        meaning: "Secret from which stack canary and pointer guard of all ranks are derived, \
            instead of the job's name, which other users can guess. Give it as `mpirun -x \
            UNDERSTUDY_SECRET`, since every user can read command lines. Not used with a disk \
            level",
        form: Form::Variable,
    },
    Setting {
        variable: "UNDERSTUDY_LOG",
        default: "warn",
        meaning: "Filter of the log on standard error, as for env_logger (`info`, `debug`, \
            `understudy_runtime::cut=trace`)",
        form: Form::Value("FILTER"),
    },
    Setting {
        variable: "UNDERSTUDY_EVENTS",
        default: "none",
        meaning: "Directory for one event file per rank; `understudy events DIR` reads them",
        form: Form::Value("DIR"),
    },
    Setting {
        variable: "UNDERSTUDY_FAULT",
        default: "none",
        meaning: "Faults for tests: `kill rank=R at=POINT [epoch=E]` makes the process with the \
            launcher's rank R kill itself there",
        form: Form::Value("FAULT"),
    },
];
