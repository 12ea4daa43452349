#!/usr/bin/env python3
"""Measures what static data cost: programs bound by memory, and the memory of each mode.

    memory.py [--release DIR] [--programs DIR] [--repetitions N] [--static MIB] [SECTION...]

Sections: speed, size. `speed` runs a stream and a random walk over 1 GiB of
static data in each of two ranks, with huge pages and a checkpoint every 10 s,
without the layer and in each mode, in turns. `size` adds up the proportional set
sizes of all processes of a job whose copies are as thin as they get. Nothing
here passes or fails. Called by `make bench-memory`, which puts MPI on the PATH.
"""

import argparse
import os
import pathlib
import statistics
import sys
import time

import jobs
from bench import ROOT, Table, machine, verdict

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


def speed(bench, repetitions, static):
    """Time of the main loop, as a ratio to the runs without the layer beside it."""
    table = Table(f"Time of the main loop: {WORKERS} ranks, {static} MiB of static and {DYNAMIC_MIB} MiB of changing data each, huge pages, "
                  "a checkpoint every 10 s", "program", "without", *(mode for mode in MODES if mode != "without"), "aim")
    for program, steps in STEPS.items():
        times = {mode: [] for mode in MODES}
        for _ in range(repetitions):
            for mode in MODES:
                printed = bench.run("memory", program, static, DYNAMIC_MIB, steps, **settings(bench, mode, "10s"))
                times[mode].append(float(next(words[1] for words in printed if words[0] == "loop")))
        ratio = {mode: median(b / a for a, b in zip(times["without"], times[mode])) for mode in MODES}
        table.row(program, f"{median(times['without']):.1f} s", *(f"{ratio[mode]:.3f}" for mode in MODES if mode != "without"),
                  verdict(ratio["replay"], 1.03))


def processes_of(bench):
    """All processes that have this run's directory in their environment or are seeds."""
    mark = str(bench.layer).encode()
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        process = pathlib.Path("/proc", entry)
        try:
            name = (process / "comm").read_text(encoding="ascii").strip()
            mapped = (process / "maps").read_bytes()
        except (OSError, UnicodeDecodeError):
            continue
        if name in ("memory", "understudy-seed") and (mark in mapped or name == "memory"):
            found.append((name, int(entry)))
    return found


def size(bench, repetitions, static):
    """Memory of all processes of a job in its main loop."""
    table = Table(f"Proportional set size of all processes, {WORKERS} workers with {static} MiB of static and {DYNAMIC_MIB} MiB of changing data each",
                  "mode", "ranks", "seeds", "for each worker", "beside its own data")
    for mode in MODES:
        sums = []
        for _ in range(repetitions):
            with bench.job("memory", "stream", static, DYNAMIC_MIB, 100000, **settings(bench, mode, "0.5s")) as job:
                job.stdout.readline()
                # Rehearsed, told, thinned, given back.
                time.sleep(15)
                of = lambda wanted: jobs.memory([pid for name, pid in processes_of(bench) if name == wanted])[1]
                sums.append((of("memory"), of("understudy-seed")))
        ranks, seeds = (median(entry[index] for entry in sums) for index in range(2))
        each = (ranks + seeds) / WORKERS
        table.row(mode, f"{ranks:.0f} MiB", f"{seeds:.0f} MiB", f"{each:.0f} MiB", f"{each - static - DYNAMIC_MIB:.0f} MiB")


SECTIONS = {"speed": speed, "size": size}


def main():
    parser = argparse.ArgumentParser(description="Measures what static data cost.")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--release", default=ROOT / "target/release", help="where libunderstudy.so is")
    parser.add_argument("--programs", default=ROOT / "build/bench", help="where the programs are")
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--static", type=int, default=1024, help="MiB of static data in each rank")
    arguments = parser.parse_args()
    unknown = set(arguments.sections) - set(SECTIONS)
    if unknown or arguments.repetitions < 1:
        parser.error(f"unknown section {unknown.pop()}" if unknown else "at least one repetition is needed")
    bench = jobs.Bench(ROOT, arguments.release, arguments.programs, needed="memory")
    print(f"Machine: {machine()}; {time.strftime('%Y-%m-%d')}; medians of {arguments.repetitions} repetitions; "
          f"load average {os.getloadavg()[0]:.1f} at the start")
    try:
        for name in arguments.sections or SECTIONS:
            SECTIONS[name](bench, arguments.repetitions, arguments.static)
    finally:
        bench.close()


if __name__ == "__main__":
    try:
        main()
    except jobs.Failed as failed:
        sys.exit(f"memory: {failed}")
    except KeyboardInterrupt:
        sys.exit(130)
