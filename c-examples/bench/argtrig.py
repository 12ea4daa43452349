#!/usr/bin/env python3
"""Compares ways to survive a failed process on Newton-ARGTRIG (X. Liu's thesis, chapter 5).

    argtrig.py [--release DIR] [--programs DIR] [--repetitions N] [--ranks N,N…] [--unknowns N] [--iterations N] [SECTION...]

Ways: `base` keeps nothing; `disk`, `diskless` and `scheme` are implemented by the program itself
(argtrig_kept.c); `ours` is the unmodified program under understudy; `shared` is `ours` with
UNDERSTUDY_SHARED_PAGES=1; `discard` is `ours` with three lines that declare that neither the
Jacobian nor the room for parts of it needs a replica. All ways take a checkpoint every ten
iterations. The matrix grows with the number of ranks, so that each rank has an equal share of it in
every row of a table.

Jobs of all ways alternate. A ratio is the median of the ratios of neighbouring jobs, printed beside
that of the thesis. Processor time is that of the whole job (all its processes, including failed
ones) minus that of a job that does nothing, and includes the time in which ranks wait for each
other.
Nothing here passes or fails. Called by `make bench-argtrig`, which puts MPI on the PATH.

Sections: undisturbed (tables 5.5 and 5.6, figure 5.3), interval (5.2 to 5.4), failure (5.7, 5.8),
failures (5.9, 5.10).
"""

import math
import statistics

import jobs
from session import MIB, Table, duration, main

median = statistics.median

EVERY = 10  # iterations from one checkpoint to the next
KEPT = ("disk", "diskless", "scheme")
UNMODIFIED = ("base", "ours", "shared")
LAYERED = ("ours", "shared", "discard")
WAYS = ("base", *KEPT, *LAYERED)


def settings_of(way, **settings):
    """Settings of understudy for a way."""
    return {"INTERVAL": f"{EVERY}calls", **settings, **({"SHARED_PAGES": 1} if way == "shared" else {})}


def unknowns(arguments, ranks):
    """Unknowns with which each rank has as many elements as with four ranks."""
    return int(arguments.unknowns * math.sqrt(ranks / 4))


class Run:
    """A job of a way, from its start to its end."""

    def __init__(self, bench, arguments, way, ranks, iterations=None, failures=(), fault=None):
        self.directory = bench.events_dir()
        iterations = arguments.iterations if iterations is None else iterations
        layer = way in LAYERED
        words = [unknowns(arguments, ranks), iterations, "--restart", EVERY, "--times"]
        program = "argtrig"
        if way not in UNMODIFIED or (way == "base" and failures):
            program = "argtrig_kept"
            words = ["none" if way == "base" else way, *words, "--every", EVERY, "--file", self.directory / "kept"]
            if failures:
                words += ["--fail-at", ",".join(map(str, failures))]
        settings, count = {}, ranks
        if layer:
            spares = max(len(failures), 1)
            settings = settings_of(way, SPARES=spares, **({"FAULT": fault} if fault else {}))
            count += spares
        line = bench.command(program, words, layer, ranks=count, events=self.directory if layer else None, **settings)
        text, _, self.processor = bench.timed(line)
        pairs = [words.split() for words in text.splitlines()]
        self.figures = {pair[0]: float(pair[1]) for pair in pairs if len(pair) == 2}
        self.norm = next(pair[-1] for pair in pairs if pair[:2] == ["argtrig:", "done,"])


class Ways:
    """Runs of all ways in turn, and one run of each way without iterations."""

    def __init__(self, bench, arguments, ranks, ways=WAYS, **keywords):
        self.runs = {way: [] for way in ways}
        # The job that does nothing runs only once, since its times are small and vary little.
        self.start = {way: Run(bench, arguments, way, ranks, iterations=0) for way in ways}
        for _ in range(arguments.repetitions):
            for way in ways:
                self.runs[way].append(Run(bench, arguments, way, ranks, **keywords.get(way, keywords.get("all", {}))))
        norms = {run.norm for runs in self.runs.values() for run in runs}
        if len(norms) > 1:
            raise jobs.Failed(f"the ways have computed different results: {norms}")

    def of(self, way, name):
        return [run.figures[name] for run in self.runs[way]]

    def processor(self, way):
        return [run.processor - self.start[way].processor for run in self.runs[way]]

    def wall(self, way):
        return self.of(way, "wall")

    def ratio(self, values, base):
        return median(a / b for a, b in zip(values, base))


# --- no failure ---------------------------------------------------------------------------

# Extra time against BASE, in percent: table 5.5, for 4 and 9 processes.
PAPER_MORE = {4: {"disk": "+7.05", "diskless": "+0.86", "scheme": "-0.02"}, 9: {"disk": "+6.30", "diskless": "+3.22", "scheme": "+0.09"}}
# Disk against diskless: table 5.6.
PAPER_CHECKPOINT = {4: 0.2244 / 0.0744, 9: 0.5597 / 0.1728}


def memory(bench, arguments, way, ranks):
    """Proportional set size of all processes in the middle of a run, in MiB."""
    count, words = ranks, [unknowns(arguments, ranks), 100000, "--print-every", 1]
    program = "argtrig" if way in UNMODIFIED else "argtrig_kept"
    if program == "argtrig_kept":
        words = [way, *words, "--file", bench.events_dir() / "kept"]
    settings = {}
    if way in LAYERED:
        settings, count = settings_of(way, SPARES=0), ranks
    with bench.job(program, *words, layer=bool(settings), ranks=count, **settings) as job:
        for line in job.stdout:
            if line.split()[:2] == ["iteration", str(2 * EVERY + 5)]:
                return jobs.memory(jobs.ranks(job.pid, program))[1]
    raise jobs.Failed(f"{way}: the job ended before its memory was measured")


def checkpoints(bench, run):
    """Times of understudy's checkpoints except the first two, in the slowest process.

    Returns the pause, the time until the checkpoint is committed, and the bytes of a process.
    """
    events = [entry["event"] for entry in bench.report(run.directory)["timeline"]]
    by_epoch = {}
    for event in events:
        if event["type"] in ("capture", "commit") and event["epoch"] > 2:
            by_epoch.setdefault(event["epoch"], {}).setdefault(event["type"], []).append(event)
    whole = [kinds for kinds in by_epoch.values() if len(kinds) == 2]
    return {
        "pause": median(max(it["scan_ns"] + it["copy_ns"] for it in kinds["capture"]) for kinds in whole) * 1e-9,
        "safe": median(max(it["ns"] for it in kinds["commit"]) for kinds in whole) * 1e-9,
        "bytes": median(it["bytes"] for kinds in whole for it in kinds["capture"]),
    }


def undisturbed(bench, arguments):
    for ranks in arguments.ranks:
        ways = Ways(bench, arguments, ranks)
        paper = PAPER_MORE.get(ranks, {})
        table = Table(f"No failure, {ranks} ranks, {unknowns(arguments, ranks)} unknowns "
                      "(tables 5.5 and 5.6, figure 5.3)", "way", "processor time", "more than base",
                      "least", "wall time", "thesis: more than base",
                      "additional memory of a process", "one checkpoint",
                      "ratio to diskless", "thesis", "bytes of a process")
        sums = {way: memory(bench, arguments, way, ranks) for way in WAYS}
        diskless = median(ways.of("diskless", "checkpoint"))
        for way in WAYS:
            used, base = ways.processor(way), ways.processor("base")
            more = [f"{(ways.ratio(used, base) - 1) * 100:+.1f} %", f"{(min(used) / min(base) - 1) * 100:+.1f} %"] if way != "base" else ["", ""]
            wall = f"{(ways.ratio(ways.wall(way), ways.wall('base')) - 1) * 100:+.1f} %" if way != "base" else duration(median(ways.wall(way)))
            extra = f"{sums[way] / ranks:.1f} MiB without checkpoints"
            if way != "base":
                extra = f"{(sums[way] - sums['base']) / ranks:+.1f} MiB"
            cells = ["", "", "", ""]
            if way in ("disk", "diskless"):
                cost = median(ways.of(way, "checkpoint"))
                cells = [duration(cost), f"{cost / diskless:.2f}", f"{PAPER_CHECKPOINT.get(ranks, math.nan):.2f}" if way == "disk" else "1",
                         f"{median(ways.of(way, 'kept')) / MIB:.2f} MiB kept"]
            elif way == "scheme":
                cells[3] = f"{median(ways.of(way, 'kept')) / 1024:.1f} KiB kept"
            elif way in LAYERED:
                found = [checkpoints(bench, run) for run in ways.runs[way]]
                pause, safe, size = (median(it[name] for it in found) for name in ("pause", "safe", "bytes"))
                cells = [f"{duration(pause)} pause, safe after {duration(safe)}", f"{pause / diskless:.2f}, {safe / diskless:.2f}", "",
                         f"{size / MIB:.2f} MiB shipped"]
            table.row(way, duration(median(used)), *more, wall, f"{paper[way]} %" if way in paper else "", extra, *cells)


# --- the best interval -----------------------------------------------------------------------

# From tables 5.3 and 5.4: failures in a run; checkpoints, their cost and that of recoveries, in
# percent.
PAPER_INTERVALS = {2.00e-4: ("25: 0.49, 1.30", "62: 0.37, 0.58"), 3.67e-4: ("35: 0.67, 1.49", "83: 0.50, 0.70"),
                   7.37e-4: ("50: 1.01, 1.79", "125: 0.75, 0.96"), 9.56e-4: ("55: 1.04, 1.88", "167: 1.04, 1.21")}
PAPER_TIME = 1233.42


def interval(bench, arguments):
    """Costs of checkpoints and recoveries at the best number of checkpoints, by equation 4.8."""
    ranks = arguments.ranks[0]
    half = arguments.iterations // 2
    ways = Ways(bench, arguments, ranks, ways=("disk", "diskless"), all={"failures": [half]})
    plain = Ways(bench, arguments, ranks, ways=("base", "ours"))
    run = median(plain.wall("base"))
    costs = {}
    table = Table(f"Times, {ranks} ranks, {unknowns(arguments, ranks)} unknowns (table 5.2; the run takes {duration(run)}, an iteration "
                  f"{duration(run / arguments.iterations)})", "way", "checkpoint t_c", "loading t_r", f"rollback t_rp of {half % EVERY} iterations",
                  "of the run: t_c, t_r, t_rp", "thesis")
    for way, paper in (("disk", (0.2434, 0.0307, 9.8674)), ("diskless", (0.0742, 0.0626, 2.4668))):
        cost = [median(ways.of(way, name)) for name in ("checkpoint", "load", "rollback")]
        costs[way] = cost
        table.row(way, *map(duration, cost), *(", ".join(f"{value / whole:.1e}" for value in values)
                                               for values, whole in ((cost, run), (paper, PAPER_TIME))))
    pause = median(checkpoints(bench, it)["pause"] for it in plain.runs["ours"])
    costs["ours"] = [pause, None, None]
    table.row("ours", f"{duration(pause)} (the pause)", "", "", f"{pause / run:.1e}", "")
    table = Table("Best number of checkpoints by equation 4.8, and what they and a recovery cost (tables 5.3 and 5.4)", "failures in a run",
                  *(f"{way}: N, checkpoints, with a recovery" for way in costs), "thesis: disk", "thesis: diskless")
    for rate, paper in PAPER_INTERVALS.items():
        failures = rate * PAPER_TIME
        cells = []
        for cost, load, rollback in costs.values():
            count = failures / math.sqrt(2 * -math.expm1(-failures * cost / run))
            again = f", {100 * (count * cost + load + rollback) / run:.2f} %" if load is not None else ""
            cells.append(f"{count:.0f}: {100 * count * cost / run:.2f} %{again}")
        table.row(f"{failures:.2f}", *cells, *paper)


# --- failures -------------------------------------------------------------------------------

# The whole run against BASE without a failure, from tables 5.7 (4 and 9 processes) and 5.9 (by
# number of failures).
PAPER_FAILURE = {4: {"base": 1835.15 / 1233.42, "disk": 1335.78 / 1233.42, "diskless": 1251.35 / 1233.42, "scheme": 1233.99 / 1233.42},
                 9: {"base": 3854.96 / 2475.26, "disk": 2725.07 / 2475.26, "diskless": 2696.7 / 2475.26, "scheme": 2503.92 / 2475.26}}
PAPER_FAILURES = {1: (1285.18, 1267.70, 1251.35, 1233.99), 2: (1334.73, 1284.09, 1263.08, 1235.07), 4: (1921.60, 1302.73, 1283.42, 1237.67),
                  6: (2958.30, 1417.34, 1311.48, 1237.92), 8: (4862.94, 2188.37, 2134.53, 1240.13)}


def moments(arguments, count):
    """Iterations, counting recomputed ones, before which a process fails."""
    return [(2 * index + 1) * arguments.iterations // (2 * count) for index in range(count)]


def kills(bench, arguments, ranks, at):
    """Faults that kill a process at these iterations: first each rank, then the replacements."""
    run = Run(bench, arguments, "ours", ranks, fault="count")
    passed = (entry for entry in bench.report(run.directory)["timeline"] if entry["event"]["type"] == "passed")
    calls = next(entry["event"]["calls"] for entry in passed if entry["rank"] == 1) / arguments.iterations
    faults = []
    for index, iteration in enumerate(at):
        # A replacement counts its calls from its start.
        since = at[index - ranks] if index >= ranks else 0
        rank = (index + 1) % ranks if index < ranks else index
        faults.append(f"kill rank={rank} at=call:{int((iteration - since) * calls) + 10}")
    return "; ".join(faults)


def recovered(bench, run, failures):
    """Seconds from all failures of a run until the program resumes, under understudy."""
    found = bench.report(run.directory)["recoveries"]
    if len(found) != failures:
        raise jobs.Failed(f"{len(found)} instead of {failures} recoveries")
    return sum(it["kill_to_resume_ns"] or it["failure_to_resume_ns"] for it in found) * 1e-9


def with_failures(bench, arguments, ranks, count):
    at = moments(arguments, count)
    ways = ("base", *KEPT, "ours")
    keywords = {way: {"failures": at} for way in ("base", *KEPT)}
    keywords["ours"] = {"failures": at, "fault": kills(bench, arguments, ranks, at)}
    return Ways(bench, arguments, ranks, ways=ways, **keywords)


def failure(bench, arguments):
    for ranks in arguments.ranks:
        plain = Ways(bench, arguments, ranks, ways=("base",))
        ways = with_failures(bench, arguments, ranks, 1)
        lost = moments(arguments, 1)[0]
        table = Table(f"A failure after {lost} of {arguments.iterations} iterations, "
                      f"{ranks} ranks, {unknowns(arguments, ranks)} unknowns (tables 5.7 and 5.8)",
                      "way", "wall time, ratio to base undisturbed", "processor time", "thesis",
                      "until all data are restored", "rollback",
                      "ratio to the lost iterations' time")
        for way in ways.runs:
            wall = ways.ratio(ways.wall(way), plain.wall("base"))
            used = ways.ratio(ways.processor(way), plain.processor("base"))
            paper = PAPER_FAILURE.get(ranks, {}).get(way)
            if way == "ours":
                cells = [duration(median(recovered(bench, run, 1) for run in ways.runs[way])) + ", from the kill", "", ""]
            else:
                rollback = median(ways.of(way, "rollback"))
                share = [run.figures["rollback"] / (run.figures["wall"] - run.figures["rollback"]) for run in ways.runs[way]]
                again = lost if way == "base" else lost % EVERY
                of_lost = f"{median(share) * arguments.iterations / again:.2f}" if way != "scheme" and again else ""
                cells = [duration(median(ways.of(way, "load"))), duration(rollback), of_lost]
            table.row(way, f"{wall:.3f}", f"{used:.3f}", f"{paper:.3f}" if paper else "", *cells)


def failures(bench, arguments):
    ranks = arguments.ranks[0]
    plain = Ways(bench, arguments, ranks, ways=("base",))
    ways = ("base", *KEPT, "ours")
    names = [cell for way in ways for cell in (way, *(("thesis",) if way != "ours" else ()), "recoveries")]
    table = Table(f"Several failures, {ranks} ranks, {unknowns(arguments, ranks)} unknowns: "
                  "processor time, ratio to base undisturbed; time of recoveries, with their "
                  "rollbacks except for `ours` (tables 5.9 and 5.10)", "failures", *names)
    for count, paper in PAPER_FAILURES.items():
        runs = with_failures(bench, arguments, ranks, count)
        cells = []
        for index, way in enumerate(ways):
            used = runs.ratio(runs.processor(way), plain.processor("base"))
            cells.append(f"{used:.3f}")
            if way == "ours":
                cells.append(duration(median(recovered(bench, run, count) for run in runs.runs[way])))
            else:
                cells += [f"{paper[index] / PAPER_TIME:.3f}",
                          duration(median(a + b for a, b in zip(runs.of(way, "load"), runs.of(way, "rollback"))))]
        table.row(count, *cells)


SECTIONS = {"undisturbed": undisturbed, "interval": interval, "failure": failure, "failures": failures}
OPTIONS = {
    "--ranks": {"type": lambda text: [int(word) for word in text.split(",")], "default": [4, 9]},
    "--unknowns": {"type": int, "default": 800, "help": "with four ranks"},
    "--iterations": {"type": int, "default": 50},
}

if __name__ == "__main__":
    main("Compares ways of surviving a lost process.", SECTIONS, needed="argtrig", repetitions=3, options=OPTIONS)
