#!/usr/bin/env python3
"""Measures what static data cost: programs bound by memory, and the memory of each mode.

    memory.py [--release DIR] [--programs DIR] [--repetitions N] [--static MIB] [SECTION...]

Sections: speed, size. `speed` runs a stream and a random walk over 1 GiB of
static data in each of two ranks, with huge pages and a checkpoint every 10 s,
without the layer and in each mode, in turns. `size` adds up the proportional set
sizes of all processes of a job whose copies are as thin as they get. Nothing
here passes or fails. Called by `make bench-memory`, which puts MPI on the PATH.
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
# Steps that take half a minute or so.
STEPS = {"stream": 70, "walk": 700}
MODES = {
    "without": None,
    "image": {"STATIC": "image"},
    "replay": {"STATIC": "replay"},
    "disk": {"STATIC": "disk"},
}


def settings(bench, mode, interval):
    """Keywords of a job in this mode."""
    if MODES[mode] is None:
        return {"layer": False, "ranks": WORKERS}
    more = {"DISK": bench.events_dir(), "DISK_EVERY": 1000000} if mode == "disk" else {}
    return {"layer": True, "ranks": WORKERS + 1, "INTERVAL": interval, "LOG_LIMIT": "1000%", **MODES[mode], **more}


def speed(bench, arguments):
    """Time of the main loop, as a ratio to the runs without the layer beside it."""
    table = Table(f"Time of the main loop: {WORKERS} ranks, {arguments.static} MiB of static and {DYNAMIC_MIB} MiB of changing data each, huge pages, "
                  "a checkpoint every 10 s", "program", "without", *(mode for mode in MODES if mode != "without"), "aim")
    for program, steps in STEPS.items():
        times = {mode: [] for mode in MODES}
        for _ in range(arguments.repetitions):
            for mode in MODES:
                printed = bench.run("memory", program, arguments.static, DYNAMIC_MIB, steps, **settings(bench, mode, "10s"))
                times[mode].append(float(next(words[1] for words in printed if words[0] == "loop")))
        ratio = {mode: median(b / a for a, b in zip(times["without"], times[mode])) for mode in MODES}
        table.row(program, f"{median(times['without']):.1f} s", *(f"{ratio[mode]:.3f}" for mode in MODES if mode != "without"),
                  verdict(ratio["replay"], 1.03))


def seeds():
    """The processes from which phases are replayed; nobody's children."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if pathlib.Path("/proc", entry, "comm").read_text(encoding="utf-8", errors="replace").strip() == "understudy-seed":
                yield int(entry)


def size(bench, arguments):
    """Memory of all processes of a job in its main loop."""
    table = Table(f"Proportional set size of all processes, {WORKERS} workers with {arguments.static} MiB of static and {DYNAMIC_MIB} MiB of changing data each",
                  "mode", "ranks", "seeds", "for each worker", "beside its own data")
    for mode in MODES:
        sums = []
        for _ in range(arguments.repetitions):
            with bench.job("memory", "stream", arguments.static, DYNAMIC_MIB, 100000, **settings(bench, mode, "0.5s")) as job:
                job.stdout.readline()
                # Rehearsed, told, thinned, given back.
                time.sleep(15)
                sums.append([jobs.memory(processes)[1] for processes in (jobs.children(job.pid), seeds())])
        ranks, seeds = (median(entry[index] for entry in sums) for index in range(2))
        each = (ranks + seeds) / WORKERS
        table.row(mode, f"{ranks:.0f} MiB", f"{seeds:.0f} MiB", f"{each:.0f} MiB", f"{each - arguments.static - DYNAMIC_MIB:.0f} MiB")


SECTIONS = {"speed": speed, "size": size}
OPTIONS = {"--static": {"type": int, "default": 1024, "help": "MiB of static data in each rank"}}

if __name__ == "__main__":
    main("Measures what static data cost.", SECTIONS, needed="memory", repetitions=2, options=OPTIONS)
