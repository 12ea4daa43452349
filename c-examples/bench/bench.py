#!/usr/bin/env python3
"""Measures the cost of understudy, and the time of its recoveries.

    bench.py [--release DIR] [--programs DIR] [--repetitions N] [SECTION...]

Jobs without and with understudy alternate. Medians over the repetitions are printed, and ratios of
figures of one repetition each, so that a machine that is slow at times slows both sides. `best` is
the ratio of the best figures of both sides, which is closer to that of an idle machine. Nothing
here passes or fails; the aims are printed beside the figures. Sections: calls, mpich, remote,
turns, pause, compared, first, threads, recovery, start, idle. Called by `make bench`, which puts
MPI on the PATH.
"""

import contextlib
import os
import signal
import statistics
import time

import jobs
from hosts import Hosts
from session import MIB, Table, duration, main, verdict

median = statistics.median

# --- calls ----------------------------------------------------------------------


# Description of each figure of `calls`, and the permitted ratio to the figure without understudy.
MESSAGES = {
    "latency": ("8-byte message, one way", 1.03),
    "message": ("8-byte messages by Isend and Irecv, 64 under way", 1.15),
    "exchange": ("8 bytes both ways by Isend, Irecv, Waitall", 1.15),
    "sendrecv": ("8 bytes both ways by Sendrecv", 1.2),
    "halo": ("8 bytes with each of 26 neighbours by Isend, Irecv, Waitall", None),
    "persistent_halo": ("the same by persistent requests", None),
    "any_halo": ("the same by Isend, Irecv, Waitany", 1.3),
    "allreduce": ("8-byte Allreduce", None),
    "allreduce_64k": ("64 KiB Allreduce", 1.03),
    "allreduce_1m": ("1 MiB Allreduce", 1.03),
    "allreduce_4m": ("4 MiB Allreduce", 1.03),
    "bandwidth": ("1 MiB messages, 8 under way", 0.97),
    "blocking_bandwidth": ("1 MiB messages, blocking", 0.97),
    "self_send": ("8 bytes to oneself by Irecv, Send, Wait, processor time", None),
    "self_exchange": ("the same by Isend, Irecv, Waitall", 1.15),
    "self_wait": ("the same by Isend, Irecv, Wait and Wait", None),
    "self_sendrecv": ("the same by Sendrecv", 1.2),
}
# Calls whose aim is a number of nanoseconds more than without understudy.
LOCAL = {
    "some_allreduce": "8-byte Allreduce of one rank",
    "some_barrier": "Barrier of one rank",
    "some_bcast": "8-byte Bcast of one rank",
    "iprobe": "Iprobe without a message",
    "comm_rank": "Comm_rank",
    "type_size": "Type_size",
    "initialized": "Initialized",
}
LOCAL_AIM_NS = 5


# Figures of `remote`. Those with an aim below 1 are rates.
ON_WINDOWS = {f"{operation}_{where}".rstrip("_"): (f"{size} {operation.capitalize()} and flush, memory of {whose}", aim)
              for whose, place in (("the program", ""), ("MPI_Win_allocate", "allocated"))
              for operation in ("put", "get", "accumulate")
              for size, where, aim in (("8-byte", place, 1.05), ("1 MiB", f"{place}_large".lstrip("_"), 0.95))}
REMOTE = ON_WINDOWS | {
    "locked": ("lock, 8-byte Accumulate, unlock, memory of the program", 1.05),
    "locked_allocated": ("lock, 8-byte Accumulate, unlock, memory of MPI_Win_allocate", 1.05),
    "fence": ("8-byte Puts both ways and fence", 1.05),
    "post_start": ("8-byte Puts both ways, post, start, complete, wait", 1.05),
    "file_write": ("1 MiB File_write_at by each", 0.95),
    "file_read": ("1 MiB File_read_at by each", 0.95),
    "file_write_all": ("1 MiB File_write_at_all by each", 0.95),
    "file_read_all": ("1 MiB File_read_at_all by each", 0.95),
}


def both_sides(bench, arguments, program, rounds, **options):
    """Returns figures of `program` without and with understudy as a function of their name.

    The function returns a list by repetition for each side.
    """
    sides = {False: [], True: []}
    for _ in range(arguments.repetitions):
        for layer in sides:
            interval = {"INTERVAL": "10s"} if layer else {}
            printed = bench.run(program, rounds, layer=layer, **options, **interval)
            sides[layer].append({name: float(value) for name, value in printed})
    return lambda name: ([run[name] for run in sides[layer]] for layer in (False, True))


def compare(table, both, rows):
    for name, (title, aim) in rows.items():
        without, with_layer = both(name)
        ratio = median(b / a for a, b in zip(without, with_layer))
        rate = aim is not None and aim < 1
        best = max(with_layer) / max(without) if rate else min(with_layer) / min(without)
        show = (lambda value: f"{value / MIB / 1024:.2f} GiB/s") if rate else duration
        table.row(title, show(median(without)), show(median(with_layer)), f"{ratio:.3f}", f"{best:.3f}",
                  verdict(ratio, aim, not rate) if aim else "")


def calls(bench, arguments, title="Calls, on two ranks", **options):
    both = both_sides(bench, arguments, "calls", 100, **options)
    table = Table(title, "what", "without", "with", "ratio", "best", "aim")
    compare(table, both, MESSAGES)
    for name, what in LOCAL.items():
        without, with_layer = both(name)
        more = median(b - a for a, b in zip(without, with_layer))
        table.row(what, duration(median(without)), duration(median(with_layer)),
                  f"{more * 1e9:+.1f} ns", f"{(min(with_layer) - min(without)) * 1e9:+.1f} ns",
                  verdict(more * 1e9, LOCAL_AIM_NS))


def mpich(bench, arguments):
    if bench.mpich.exists():
        calls(bench, arguments, "Calls with MPICH, on two ranks", mpich=True)
    else:
        print("\nMPICH is not installed (make setup), so its calls are not measured.")


def remote(bench, arguments):
    table = Table("Windows and files, on two ranks", "what", "without", "with", "ratio", "best", "aim")
    compare(table, both_sides(bench, arguments, "remote", 20), REMOTE)


# Threads that call MPI. The extra cost is that against a program that has not requested the thread
# level.
TURNS = {"alone": "the main thread, without others", "several": "the main thread", "other": "another thread"}
TURN_AIM_NS = 15


def turns(bench, arguments):
    """Cost of the thread level at which any thread may call MPI."""
    sides = {(): [], ("multiple",): []}
    for _ in range(arguments.repetitions):
        for options, runs in sides.items():
            printed = bench.run("turns", *options, layer=True, INTERVAL="10s")
            runs.append({name: float(value) for name, value in printed})
    funnelled, multiple = sides.values()
    table = Table("MPI lock: MPI_Comm_rank in a program that has requested MPI_THREAD_FUNNELED, "
                  "and in one that has requested MPI_THREAD_MULTIPLE", "called by", "FUNNELED",
                  "MULTIPLE", "more", "best", "aim")
    for name, title in TURNS.items():
        usual = [run.get(name, run["several"]) for run in funnelled]
        own = [run[name] for run in multiple]
        more = median(b - a for a, b in zip(usual, own)) * 1e9
        table.row(title, duration(median(usual)), duration(median(own)), f"{more:+.1f} ns", f"{(min(own) - min(usual)) * 1e9:+.1f} ns",
                  verdict(more, TURN_AIM_NS))


# --- pause and commit -------------------------------------------------------------

CUTS = 10  # per job
SKIPPED = 3  # checkpoints: MPI_Init, the complete one, and one to warm up


def values(lines, name):
    """The figures called `name` of all iterations, in seconds."""
    return [float(words[words.index(name) + 1]) for words in lines if words[0] == "iteration"]


def calls_per_iteration(dirty):
    """Number of calls with which a checkpoint is committed before the next one begins."""
    return 50 + 120 * dirty // MIB


def pause_once(bench, size, percent, **settings):
    """Figures of a job without and of one with understudy, one after the other."""
    count = calls_per_iteration(size * MIB * percent // 100)
    plain = bench.run("dirty", 0, size, percent, 12, count, "--plain")
    copy, exchange = median(values(plain, "copy")[2:]), median(values(plain, "exchange")[2:])
    directory = bench.events_dir()
    # Every second iteration ends with a cut.
    lines = bench.run("dirty", 0, size, percent, 2 * CUTS + 6, count, layer=True, events=directory,
                      INTERVAL=f"{2 * count}calls", COPIES=1, **settings)
    events = [event for event in bench.events(directory) if event.get("epoch", 0) > SKIPPED]
    captures = [event for event in events if event["type"] == "capture"]
    allreduce, write = values(lines, "allreduce")[SKIPPED * 2:], values(lines, "write")[SKIPPED * 2:]
    return {
        "copy": copy,
        "safe_plain": copy + exchange,
        "bytes": median(event["bytes"] for event in captures),
        "scan": median(event["scan_ns"] for event in captures) * 1e-9,
        "capture": median(event["scan_ns"] + event["copy_ns"] for event in captures) * 1e-9,
        "best_capture": min(event["scan_ns"] + event["copy_ns"] for event in captures) * 1e-9,
        "best_copy": min(values(plain, "copy")),
        "pause": median(allreduce[1::2]) - median(allreduce[0::2]),
        "commit": median(event["ns"] for event in events if event["type"] == "commit") * 1e-9,
        "best_commit": min(event["ns"] for event in events if event["type"] == "commit") * 1e-9,
        "best_safe": min(map(sum, zip(values(plain, "copy"), values(plain, "exchange")))),
        # The iteration after a cut meets write-protected pages.
        "faults": median(write[0::2]) - median(write[1::2]),
    }


def over(runs, name):
    """Median of a figure over all runs."""
    return median(run[name] for run in runs)


def pause(bench, arguments):
    table = Table("Checkpoints: pause, and time until the copy is safe at the buddy", "data, dirty", "captured",
                  "memcpy", "capture (fixed part)", "pause in the program", "capture / memcpy", "best", "aim",
                  "memcpy + Sendrecv", "safe after", "ratio", "best", "aim", "write faults after")
    for size in (16, 128):
        for percent in (1, 10, 100):
            runs = [pause_once(bench, size, percent) for _ in range(arguments.repetitions)]

            def ratio(a, b, runs=runs):
                return median(run[a] / run[b] for run in runs)

            def best(a, b, runs=runs):
                return min(run[a] for run in runs) / min(run[b] for run in runs)

            captured, safe = ratio("capture", "copy"), ratio("commit", "safe_plain")
            table.row(f"{size} MiB, {percent} %", f"{over(runs, 'bytes') / MIB:.2f} MiB",
                      duration(over(runs, "copy")),
                      f"{duration(over(runs, 'capture'))} ({duration(over(runs, 'scan'))})",
                      duration(over(runs, "pause")),
                      f"{captured:.2f}", f"{best('best_capture', 'best_copy'):.2f}", verdict(captured, 1.3),
                      duration(over(runs, "safe_plain")), duration(over(runs, "commit")),
                      f"{safe:.2f}", f"{best('best_commit', 'best_safe'):.2f}", verdict(safe, 1.5),
                      duration(over(runs, "faults")))


DEFAULT_INTERVAL_S = 10


def compared(bench, arguments):
    """Checkpoints of kernels before Linux 6.7, which do not report modified pages."""
    table = Table("Checkpoints where modified pages are found by comparing "
                  "(UNDERSTUDY_TRACKING=compare)", "data, dirty", "captured", "memcpy",
                  "capture (fixed part)", "pause in the program",
                  f"a minute, a checkpoint every {DEFAULT_INTERVAL_S} s")
    size = 128
    for percent in (1, 100):
        runs = [pause_once(bench, size, percent, TRACKING="compare")
                for _ in range(arguments.repetitions)]
        table.row(f"{size} MiB, {percent} %", f"{over(runs, 'bytes') / MIB:.2f} MiB",
                  duration(over(runs, "copy")),
                  f"{duration(over(runs, 'capture'))} ({duration(over(runs, 'scan'))})",
                  duration(over(runs, "pause")),
                  duration(over(runs, "pause") * 60 / DEFAULT_INTERVAL_S))


# --- first checkpoints --------------------------------------------------------------

FIRST_INTERVAL_S = 1
FIRST_SECONDS = 7  # of a job
SHOWN = 4  # checkpoints, from the first one with static data on


def first_once(bench, static, dynamic):
    """Captures and times until they are safe, of the first checkpoints after the set-up phase."""
    directory = bench.events_dir()
    with bench.job("dirty", static, dynamic, 100, 1_000_000, 50, layer=True, events=directory,
                   INTERVAL=f"{FIRST_INTERVAL_S}s") as job:
        job.stdout.readline()
        time.sleep(FIRST_SECONDS * FIRST_INTERVAL_S)
    records = [event for event in bench.events(directory) if event["type"] in ("capture", "commit")]

    def by_epoch(kind, value):
        epochs = {}
        for event in (event for event in records if event["type"] == kind):
            epochs[event["epoch"]] = max(epochs.get(event["epoch"], 0), value(event))
        return epochs

    sizes = by_epoch("capture", lambda event: event["bytes"])
    first = min(epoch for epoch, size in sizes.items() if size >= static * MIB)
    captures = by_epoch("capture", lambda event: (event["scan_ns"] + event["copy_ns"]) * 1e-9)
    commits = by_epoch("commit", lambda event: event["ns"] * 1e-9)
    return [(captures[epoch], commits[epoch]) for epoch in range(first, first + SHOWN)]


def first(bench, arguments):
    numbers, figures = ("first", "second", "third", "fourth"), ("capture", "commit")
    columns = [f"{figure} of the {number}" for number in numbers for figure in figures]
    table = Table("First checkpoints after the set-up phase, all dynamic data dirty",
                  "data + static data per rank", *columns)
    for static, dynamic in ((64, 16), (512, 128)):
        runs = [first_once(bench, static, dynamic) for _ in range(arguments.repetitions)]
        shown = [duration(median(run[checkpoint][figure] for run in runs))
                 for checkpoint in range(SHOWN) for figure in range(len(figures))]
        table.row(f"{dynamic} + {static} MiB", *shown)


# Activity of the program's threads meanwhile, their number, and the number of calls between two
# cuts.
THREADS = ((None, 0, 200), ("sleeping", 1, 200), ("sleeping", 8, 200), ("sleeping", 64, 200), ("computing", 1, 40), ("computing", 8, 10))


def threads_once(bench, what, count, between):
    """Returns the times of the Allreduce without and with a cut in it, and of the cut's capture."""
    options = (f"--{what}", count) if what else ()
    directory = bench.events_dir()
    lines = bench.run("dirty", 0, 1, 10, 2 * CUTS + 6, between // 2, *options, layer=True, events=directory,
                      INTERVAL=f"{between}calls")
    captures = [event for event in bench.events(directory) if event["type"] == "capture" and event["epoch"] > SKIPPED]
    if len(captures) < CUTS * jobs.WORKERS:
        raise jobs.Failed(f"{count} {what} threads: fewer checkpoints were taken than were due")
    allreduce = values(lines, "allreduce")[SKIPPED * 2:]
    return {
        "without": median(allreduce[0::2]),
        "with": median(allreduce[1::2]),
        "capture": median(event["scan_ns"] + event["copy_ns"] for event in captures) * 1e-9,
    }


def threads(bench, arguments):
    """Measures the time in which a cut stops all threads of the program."""
    table = Table("Threads of the program in each of 2 ranks: additional time of a cut", "threads",
                  "Allreduce", "with a cut", "pause", "more than without threads", "best",
                  "capture")
    sides = {row: [] for row in THREADS}
    for _ in range(arguments.repetitions):
        for row, runs in sides.items():
            runs.append(threads_once(bench, *row))

    def pauses(runs):
        return [run["with"] - run["without"] for run in runs]

    none = pauses(sides[THREADS[0]])
    for (what, count, _), runs in sides.items():
        own = pauses(runs)
        more = (duration(median(b - a for a, b in zip(none, own))), duration(min(own) - min(none))) if what else ("", "")
        table.row(f"{count} {what}" if what else "none", *(duration(median(run[name] for run in runs)) for name in ("without", "with")),
                  duration(median(own)), *more, duration(median(run["capture"] for run in runs)))


# --- recovery -----------------------------------------------------------------------

STAGES = ("reset", "drain", "initialise", "agree", "replace", "fetch", "load", "rebuild", "reprotect", "resume")


def progress(path):
    """Rank, process, iteration and time of the lines so far."""
    text = path.read_text(encoding="ascii") if path.exists() else ""
    return [tuple(map(int, line.split())) for line in text.splitlines() if line.count(" ") == 3]


def recover_once(bench, static, dynamic, wait_s=0, lost_host=False, **settings):
    """Kills worker 1, or the host of worker 1; returns the seconds of each phase of the recovery.

    The kill comes after iteration 11, and `wait_s` after the end of the set-up phase.
    """
    count = calls_per_iteration(dynamic * MIB // 10)
    directory = bench.events_dir()
    path = directory / "progress"
    arguments = (static, dynamic, 10, 1_000_000, count, "--progress", path)
    settings = {"INTERVAL": f"{2 * count}calls", **settings}
    with contextlib.ExitStack() as stack:
        hosts = stack.enter_context(Hosts(bench)) if lost_host else None
        stack.enter_context(bench.job("dirty", *arguments, layer=True, events=directory,
                                      hosts=hosts, **settings))

        def line_of_1(condition):
            own = (line for line in progress(path) if line[0] == 1 and condition(line))
            return next(own, None)

        _, victim, _, _ = jobs.wait_until(lambda: line_of_1(lambda line: line[2] >= 11),
                                          "iteration 11 of rank 1")
        time.sleep(wait_s)
        killed = time.monotonic_ns()
        if lost_host:
            hosts.lose()
        else:
            os.kill(victim, signal.SIGKILL)
        def is_of_replacement(line):
            # Process numbers of two hosts can be equal.
            return line[3] > killed if lost_host else line[1] != victim

        *_, resumed = jobs.wait_until(lambda: line_of_1(is_of_replacement),
                                      "process that takes over from worker 1")
        if lost_host:
            time.sleep(1)  # the next checkpoint restores the replicas
    events = bench.events(directory)
    phases = {"kill to resumed": (resumed - killed) * 1e-9}
    resume = next(event for event in events if event["type"] == "resume" and event["rank"] == 0)
    phases["detect"] = (resume["at"] - resume["total_ns"] - killed) * 1e-9
    for event in events:
        # The replacement's time in stages with work for the replacement only, else that of rank 0.
        if event["type"] == "stage" and event["stage"] in STAGES and event["rank"] == (2 if event["stage"] in ("fetch", "load", "reprotect") else 0):
            phases[event["stage"]] = event["ns"] * 1e-9
    phases["first iteration"] = (resumed - resume["at"]) * 1e-9
    commits = [event["at"] for event in events
               if event["type"] == "commit" and event["at"] > resume["at"]]
    if commits:
        phases["replicas complete"] = (commits[0] - killed) * 1e-9
    return phases


# Kinds of jobs: their settings, and the aims in seconds for each size.
RECOVERIES = {
    "": ({}, (0.08, 0.2)),
    ", no spare": ({"SPARES": 0}, (None, None)),
    # The second of two hosts is lost; replicas of both workers have to be restored.
    ", host lost": ({"lost_host": True, "wait_s": 4, "SPARES": 0, "INTERVAL": "1s"}, (0.15, 0.6)),
    # After this time the set-up has been replayed for comparison, and replicas are reduced.
    ", set-up replayed": ({"wait_s": 15, "STATIC": "replay"}, (0.1, 0.4)),
}
SIZES = ((64, 16), (512, 128))


def recovery(bench, arguments):
    names = ("kill to resumed", "detect", *STAGES, "first iteration", "replicas complete")
    table = Table("Recovery: from the kill to the replacement's first iteration (fetch, load and "
                  "reprotect: times of the replacement)", "data + static data per rank", *names,
                  "aim")
    for kind, (options, aims) in RECOVERIES.items():
        for (static, dynamic), aim in zip(SIZES, aims):
            runs = [recover_once(bench, static, dynamic, **options)
                    for _ in range(arguments.repetitions)]
            totals = [run["kill to resumed"] for run in runs]
            shown = (duration(median(run.get(name, 0.0) for run in runs)) for name in names)
            met = verdict(median(totals), aim) + "; " if aim else ""
            table.row(f"{dynamic} + {static} MiB{kind}", *shown,
                      met + f"best {duration(min(totals))}")


# --- start and idle -------------------------------------------------------------------


def start(bench, arguments):
    """From the start of mpirun to the end of MPI_Init."""
    table = Table("Start: from the launcher's start to the end of MPI_Init", "job", "without",
                  "with a spare", "more", "best", "aim (ms)")
    for mpich in (False, True) if bench.mpich.exists() else (False,):
        for workers in (2, 16):
            sides = {False: [], True: []}
            for _ in range(max(arguments.repetitions * 2, 5)):
                for layer, times in sides.items():
                    begin = time.monotonic_ns()
                    ranks = workers + (jobs.SPARES if layer else 0)
                    printed = bench.run("idle", 0, layer=layer, ranks=ranks, mpich=mpich)
                    times.append((int(printed[0][1]) - begin) * 1e-9)
            without, with_layer = sides[False], sides[True]
            more = median(b - a for a, b in zip(without, with_layer)) * 1e3
            table.row(f"{workers} workers{', MPICH' if mpich else ''}", duration(median(without)),
                      duration(median(with_layer)), f"{more:+.1f} ms",
                      f"{(min(with_layer) - min(without)) * 1e3:+.1f} ms",
                      verdict(more, 20) if (workers, mpich) == (2, False) else "")


def idle(bench, arguments):
    """Memory of all ranks with 16 MiB of data each, and the processor time of a spare."""
    rows = {False: [], True: []}
    shares = []
    for _ in range(max(arguments.repetitions // 2, 1)):
        for layer in rows:
            with bench.job("idle", 4, 16, layer=layer) as job:
                job.stdout.readline()
                time.sleep(0.5)
                ranks = jobs.ranks(job.pid, "idle")
                rows[layer].append(jobs.memory(ranks))
                if layer:
                    spare, begin = ranks[-1:], time.monotonic_ns()
                    before = jobs.cpu_ns(spare)
                    time.sleep(2)
                    shares.append((jobs.cpu_ns(spare) - before) / (time.monotonic_ns() - begin))
                job.communicate(timeout=jobs.LIMIT_S)
    table = Table("Memory of 2 ranks with 16 MiB of data each (with understudy: and of a spare), "
                  "and an idle spare", "what", "without", "with", "ratio")
    for index, name in enumerate(("resident, sum", "proportional, sum")):
        without, with_layer = (median(row[index] for row in rows[layer]) for layer in (False, True))
        table.row(name, f"{without:.0f} MiB", f"{with_layer:.0f} MiB", f"{with_layer / without:.2f}")
    table.row("an idle spare's share of a core", "", f"{median(shares) * 100:.2f} %", "")


SECTIONS = {
    "calls": calls, "mpich": mpich, "remote": remote, "turns": turns, "pause": pause,
    "compared": compared, "first": first,
    "threads": threads, "recovery": recovery, "start": start, "idle": idle,
}

if __name__ == "__main__":
    main("Measures what understudy costs.", SECTIONS, needed="calls")
