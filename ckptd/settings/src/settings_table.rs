//! The table of all settings.

use crate::setting::{Form, SECRET, Setting};

/// Every variable that the runtime reads.
pub const SETTINGS: &[Setting] = &[
    Setting {
        variable: "UNDERSTUDY_SPARES",
        default: "1",
        meaning: "how many of the last ranks are spares; the program sees only the others. Where \
            none is left, a new process takes a part",
        form: Form::Value("S"),
    },
    Setting {
        variable: "UNDERSTUDY_COPIES",
        default: "1",
        meaning: "how each worker's memory is kept by others: `1` or `2` whole copies (with 2 any \
            two nodes may be lost at once, for twice the memory and traffic of copies), or \
            `xor:G`, parity over groups of G workers (one of each group may be lost at a time, \
            for 1/(G - 1) of the memory)",
        form: Form::Value("1|2|xor:G"),
    },
    Setting {
        variable: "UNDERSTUDY_SHARED_PAGES",
        default: "auto",
        meaning: "whether pages of a copy that its holder has itself, at the same address with \
            the same content (tables that all ranks have read), are left out: neither sent nor \
            kept twice. `auto`: where a sample, every sixteenth checkpoint, finds a tenth of \
            them; `1`: always asked; `0`: never. Not with parity",
        form: Form::Value("auto|0|1"),
    },
    Setting {
        variable: "UNDERSTUDY_BUDDY_OFFSET",
        default: "ranks per node",
        meaning: "the copy of rank r is held by worker (r + offset) mod W, or by a near one if \
            that is in the same domain and another need not be",
        form: Form::Value("K"),
    },
    Setting {
        variable: "UNDERSTUDY_DOMAIN",
        default: "none",
        meaning: "file with lines `host domain`: hosts of a domain fail together, so copies are \
            kept in another one; without it every node is a domain",
        form: Form::Value("FILE"),
    },
    Setting {
        variable: "UNDERSTUDY_INTERVAL",
        default: "10s",
        meaning: "time between checkpoints (`10s`, `500ms`), a number of collectives over all \
            workers (`100calls`), `off`, or `auto`: Daly's formula, from what checkpoints cost as \
            the job runs and from `UNDERSTUDY_MTBF`",
        form: Form::Value("INTERVAL"),
    },
    Setting {
        variable: "UNDERSTUDY_MTBF",
        default: "24h",
        meaning: "mean time between failures of the whole job (`6h`, `30d`) that is expected at \
            the start, for `UNDERSTUDY_INTERVAL=auto`; the job learns from its failures",
        form: Form::Value("TIME"),
    },
    Setting {
        variable: "UNDERSTUDY_WARNINGS",
        default: "none",
        meaning: "file that says what failures are to come, when it is written: `mtbf=10m`, \
            `checkpoint`; `understudy warn` writes another one",
        form: Form::Value("FILE"),
    },
    Setting {
        variable: "UNDERSTUDY_TRACKING",
        default: "auto",
        meaning: "how changed pages are found: `pagemap` (userfaultfd and PAGEMAP_SCAN), \
            `compare` (with the last copy), or `auto`",
        form: Form::Value("HOW"),
    },
    Setting {
        variable: "UNDERSTUDY_STATIC",
        default: "image",
        meaning: "how data that the program sets up once are brought back: `image`, copies hold \
            them; `replay`, copies do without what another process has rebuilt from a record of \
            the MPI calls up to the first checkpoint after `MPI_Init`, and an understudy rebuilds \
            it; `disk`, they are written to UNDERSTUDY_DISK once and read from there; `auto`, \
            `replay` if at least half of them have been rebuilt, else `image`",
        form: Form::Value("HOW"),
    },
    Setting {
        variable: "UNDERSTUDY_INIT_END",
        default: "auto",
        meaning: "where that record ends, at the first checkpoint after: `auto` (calls repeat, or \
            the first interval is over), `MPI_Allreduce#120` (that many calls), `pcontrol:1` \
            (MPI_Pcontrol with this level), `function:main_loop` (entered; in C++ `Solver::run`, \
            with its arguments if there are several), `time:30s`",
        form: Form::Value("RULE"),
    },
    Setting {
        variable: "UNDERSTUDY_NEW_PHASE",
        default: "pcontrol:2",
        meaning: "with `replay`: the MPI_Pcontrol call by which all workers say that they are \
            about to set their data up anew (a mesh that is refined); at the next checkpoint \
            another record begins, which ends by the same rule and takes the place of the one \
            before; `off`: none does",
        form: Form::Value("CALL"),
    },
    Setting {
        variable: "UNDERSTUDY_LOG_LIMIT",
        default: "25%",
        meaning: "how long that record may get: a part of the program's memory (`25%`, but at \
            least 4M) or a size (`64M`); past it copies hold everything",
        form: Form::Value("LIMIT"),
    },
    Setting {
        variable: "UNDERSTUDY_REHEARSE",
        default: "off",
        meaning: "whose initialisation phase is recorded and then replayed in a process beside \
            another worker, which tells what of the memory it rebuilds: `all`, `sample` (every \
            fourth worker) or `off`. With UNDERSTUDY_STATIC=image nothing follows from it but a \
            line in the event files; with `replay` copies keep whatever was not rehearsed, and \
            `off` means `all`",
        form: Form::Variable,
    },
    Setting {
        variable: "UNDERSTUDY_DISK",
        default: "none",
        meaning: "directory, the same for all ranks, to which epochs are written, so that the \
            whole job can be restarted",
        form: Form::Value("DIR"),
    },
    Setting {
        variable: "UNDERSTUDY_DISK_EVERY",
        default: "1",
        meaning: "every how many epochs one is written there; while one is being written no other \
            is begun",
        form: Form::Value("N"),
    },
    Setting {
        variable: "UNDERSTUDY_RUNTIME_DIR",
        default: "/dev/shm",
        meaning: "existing directory of each node for understudy's own, `understudy-UID`, in \
            which files outlive a process; by default `/dev/shm`, or `/run/user/UID` where \
            another user has taken the name or `/dev/shm` cannot be used",
        form: Form::Variable,
    },
    Setting {
        variable: "UNDERSTUDY_RESTART",
        default: "0",
        meaning: "1: the job goes on from the last complete epoch in UNDERSTUDY_DISK; it stops if \
            there is none",
        form: Form::Switch,
    },
    Setting {
        variable: "UNDERSTUDY_ANYWHERE",
        default: "1",
        meaning: "0: checkpoints are taken at collectives over all workers only; 1: where none \
            has come for three intervals, also at whatever calls about messages the workers are \
            in",
        form: Form::Value("0|1"),
    },
    Setting {
        variable: "UNDERSTUDY_THREADS",
        default: "1",
        meaning: "0: a program that creates threads loses its protection; 1: threads are saved \
            and brought back, and any may call MPI if the program asks for MPI_THREAD_SERIALIZED \
            or more; serialized: as if it asked for that",
        form: Form::Value("0|1|serialized"),
    },
    Setting {
        variable: "UNDERSTUDY_REPLENISH",
        default: "0",
        meaning: "1: when a spare has taken a part or died, another process is started, which is \
            a spare then",
        form: Form::Switch,
    },
    Setting {
        variable: "UNDERSTUDY_CKPTD",
        default: "none",
        meaning: "daemon that may choose which spare takes a part: the path of its socket, or \
            `tcp:ADDRESS:PORT`; without an answer from it a spare of the dead worker's node is \
            taken, or the lowest",
        form: Form::Value("WHERE"),
    },
    Setting {
        variable: "UNDERSTUDY_CKPTD_TOKEN",
        default: "none",
        meaning: "file (mode 0600, on every node) with the token that the daemon wants over TCP",
        form: Form::Value("FILE"),
    },
    Setting {
        variable: "UNDERSTUDY_REQUIRE",
        default: "0",
        meaning: "1: a job that cannot be protected stops before MPI_Init returns; 0: it runs \
            unprotected; `start` (default of `understudy run`): as 1, but a job that runs and \
            gets short of memory goes on",
        form: Form::Variable,
    },
    Setting {
        variable: "UNDERSTUDY_POISON",
        default: "0",
        meaning: "1: memory that the program gives up with `understudy_discard` is overwritten at \
            once, and what it can recompute (`understudy_recompute`) is computed at every \
            checkpoint and compared, and so are steps undone (`understudy_reversible`), so that a \
            wrong claim shows without a failure",
        form: Form::Variable,
    },
    Setting {
        variable: "UNDERSTUDY_DISABLE",
        default: "0",
        meaning: "1: nothing is done at all",
        form: Form::Variable,
    },
    Setting {
        variable: "UNDERSTUDY_LATE",
        default: "see the guide",
        meaning: "whether programs that do not need libmpi from the start are prepared for \
            loading it later: 1, all; 0, none; unset, those that the launcher itself has started",
        form: Form::Variable,
    },
    Setting {
        variable: SECRET,
        default: "made by `understudy run`",
        meaning: "what stack canary and pointer guard of all ranks are derived from, instead of \
            the job's name, which other users can guess; give it as `mpirun -x \
            UNDERSTUDY_SECRET`, since everybody may read command lines. Not used with a disk \
            level",
        form: Form::Variable,
    },
    Setting {
        variable: "UNDERSTUDY_LOG",
        default: "warn",
        meaning: "what is logged on standard error, as an env_logger filter (`info`, `debug`, \
            `understudy_runtime::cut=trace`)",
        form: Form::Value("FILTER"),
    },
    Setting {
        variable: "UNDERSTUDY_LOG_DIR",
        default: "none",
        meaning: "directory for one event file per rank; `understudy events DIR` reads them",
        form: Form::Value("DIR"),
    },
    Setting {
        variable: "UNDERSTUDY_FAULT",
        default: "none",
        meaning: "for tests: `kill rank=R at=POINT [epoch=E]` lets rank R (of the launcher) kill \
            itself there; more in the guide",
        form: Form::Value("FAULT"),
    },
];
