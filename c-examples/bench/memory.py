#!/usr/bin/env python3
"""Measures the cost of static data: speed of programs bound by memory, and memory of each mode.

    memory.py [--release DIR] [--programs DIR] [--repetitions N] [--static MIB] [--modes MODE,MODE…] [SECTION...]

Sections: speed, size. `speed` runs a stream and a random walk over 1 GiB of static data in each of
two ranks, with huge pages and a checkpoint every 10 s, without understudy and in each mode, in
turn. `size` adds up the proportional set sizes of all processes of a job whose replicas are fully
reduced. Nothing here passes or fails. Called by `make bench-memory`, which puts MPI on the PATH.
"""

import contextlib
import os
import pathlib
import statistics
import time

import jobs
from session import Table, main, verdict

median = statistics.median
WORKERS = 2
DYNAMIC_MIB = 16
# Numbers of steps for about 90 s, which is long enough for the trial replay: the set-up phase ends
# with the first checkpoint, and the trial replay follows.
STEPS = {"stream": 600, "walk": 1300}
MODES = {
    "without": None,
    "image": {"STATIC": "image"},
    "replay": {"STATIC": "replay"},
    "disk": {"STATIC": "disk"},
}


def settings(bench, mode, interval):
    """Keyword arguments of a job in this mode."""
    if MODES[mode] is None:
        return {"layer": False, "ranks": WORKERS}
    more = {"DISK": bench.events_dir(), "DISK_EVERY": 1000000} if mode == "disk" else {}
    return {"layer": True, "ranks": WORKERS + 1, "INTERVAL": interval, "JOURNAL_LIMIT": "1000%", **MODES[mode], **more}


def speed(bench, arguments):
    """Time of the main loop, as a ratio to the neighbouring runs without understudy.

    The first ratio is that of all steps, the second one that of the second half of the steps, in
    which static data have been captured, replayed and elided.
    """
    others = arguments.modes.split(",")
    table = Table(f"Time of the main loop, and of its second half: {WORKERS} ranks, {arguments.static} MiB of static and {DYNAMIC_MIB} MiB of "
                  "changing data each, huge pages, a checkpoint every 10 s", "program", "without", *others, "aim (second half)")
    for program, steps in STEPS.items():
        times = {mode: [] for mode in ("without", *others)}
        for _ in range(arguments.repetitions):
            for mode in times:
                printed = bench.run("memory", program, arguments.static, DYNAMIC_MIB, steps, **settings(bench, mode, "10s"))
                times[mode].append(next(tuple(map(float, words[1:3])) for words in printed if words[0] == "loop"))
        ratio = {mode: [median(with_layer[part] / plain[part] for plain, with_layer in zip(times["without"], times[mode])) for part in (0, 1)]
                 for mode in others}
        whole, half = (median(run[part] for run in times["without"]) for part in (0, 1))
        table.row(program, f"{whole:.1f} s, {half:.1f} s", *(f"{ratio[mode][0]:.3f}, {ratio[mode][1]:.3f}" for mode in others),
                  verdict(ratio["replay"][1], 1.03) if "replay" in ratio else "")


def seeds():
    """The template processes of replays, which are children of no rank."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if pathlib.Path("/proc", entry, "comm").read_text(encoding="utf-8", errors="replace").strip() == "understudy-seed":
                yield int(entry)


def size(bench, arguments):
    """Memory of all processes of a job in its main loop."""
    table = Table(f"Proportional set size of all processes, {WORKERS} workers with {arguments.static} MiB of static and {DYNAMIC_MIB} MiB of changing data each",
                  "mode", "ranks", "template processes", "for each worker", "without its own data")
    for mode in ("without", *arguments.modes.split(",")):
        sums = []
        for _ in range(arguments.repetitions):
            with bench.job("memory", "stream", arguments.static, DYNAMIC_MIB, 100000, **settings(bench, mode, "0.5s")) as job:
                job.stdout.readline()
                # The trial replay is complete, and pages are elided and released.
                time.sleep(15)
                sums.append([jobs.memory(processes)[1] for processes in (jobs.ranks(job.pid, "memory"), seeds())])
        of_ranks, of_seeds = (median(entry[index] for entry in sums) for index in range(2))
        each = (of_ranks + of_seeds) / WORKERS
        table.row(mode, f"{of_ranks:.0f} MiB", f"{of_seeds:.0f} MiB", f"{each:.0f} MiB", f"{each - arguments.static - DYNAMIC_MIB:.0f} MiB")


SECTIONS = {"speed": speed, "size": size}
OPTIONS = {
    "--static": {"type": int, "default": 1024, "help": "MiB of static data in each rank"},
    "--modes": {"default": "image,replay,disk", "help": "modes that are measured"},
}

if __name__ == "__main__":
    main("Measures what static data cost.", SECTIONS, needed="memory", repetitions=2, options=OPTIONS)
