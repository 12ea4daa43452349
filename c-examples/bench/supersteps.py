#!/usr/bin/env python3
"""Measures the skeleton of supersteps against a hand-written loop, without and with understudy.

    supersteps.py [--release DIR] [--programs DIR] [--repetitions N] [--side N] [--steps N]

Jobs alternate; a ratio is the median of the ratios of neighbouring jobs. Processor time is that of
the whole job minus that of a job that makes no steps. Called by `make bench-supersteps`, which puts
MPI on the PATH.
"""

import statistics

from session import Table, duration, main, verdict

median = statistics.median

RANKS = 2
EVERY = 500  # supersteps from one checkpoint to the next


class Side:
    """One way to run `relax`."""

    def __init__(self, options=(), layer=False, kills=False):
        self.options, self.layer, self.kills = options, layer, kills
        self.start = None
        self.processor, self.wall, self.recoveries, self.captured = [], [], [], []

    def run(self, bench, arguments, steps):
        directory = bench.events_dir()
        settings = {}
        if self.layer:
            # Each superstep makes a few MPI calls: this call is in the second half of the run.
            fault = {"FAULT": f"kill rank=1 at=call:{5 * steps * 2 // 3}"} if self.kills else {}
            settings = {"INTERVAL": f"{EVERY}calls", "events": directory, **fault}
        words = [arguments.side, arguments.side, steps, "--times", *self.options]
        text, _, processor = bench.timed(bench.command("relax", words, self.layer, **({} if self.layer else {"ranks": RANKS}), **settings))
        return text, processor, directory

    def once(self, bench, arguments):
        if self.start is None:
            self.start = Side(self.options, self.layer).run(bench, arguments, 0)[1]
        text, processor, directory = self.run(bench, arguments, arguments.steps)
        self.processor.append(processor - self.start)
        self.wall.append(next(float(line.split()[1]) for line in text.splitlines() if line.startswith("steps ")))
        if self.layer:
            report = bench.report(directory)
            self.recoveries += [it["kill_to_resume_ns"] * 1e-9 for it in report["recoveries"]]
            self.captured += [entry["event"]["bytes"] for entry in report["timeline"]
                              if entry["event"]["type"] == "capture" and entry["event"]["epoch"] > 2]


def supersteps(bench, arguments):
    sides = {
        "by hand": Side(("--by-hand",)),
        "skeleton": Side(),
        "skeleton, under understudy": Side(layer=True),
        "skeleton, under understudy, a rank is killed": Side(layer=True, kills=True),
    }
    for _ in range(arguments.repetitions):
        for side in sides.values():
            side.once(bench, arguments)
    table = Table(f"relax, {arguments.side} x {arguments.side} cells, "
                  f"{arguments.steps} supersteps, {RANKS} ranks, a checkpoint every {EVERY}",
                  "way", "processor time", "ratio to the first row", "ratio to the row before",
                  "best", "aim", "wall time",
                  "captured / one array", "kill to resumed")
    first = sides["by hand"]
    before = first
    for (name, side), aim in zip(sides.items(), (None, 1.03, 1.08, None)):
        ratio = median(a / b for a, b in zip(side.processor, before.processor))
        array = arguments.side * (arguments.side // RANKS) * 8
        recovery = median(side.recoveries) if side.recoveries else None
        table.row(name, duration(median(side.processor)), f"{median(a / b for a, b in zip(side.processor, first.processor)):.3f}", f"{ratio:.3f}",
                  f"{min(side.processor) / min(before.processor):.3f}", verdict(ratio, aim) if aim else "", duration(median(side.wall)),
                  f"{median(side.captured) / array:.2f}" if side.captured else "",
                  f"{duration(recovery)}; {verdict(recovery, 1.0)}" if recovery else "")
        before = side


OPTIONS = {"--side": {"type": int, "default": 1000}, "--steps": {"type": int, "default": 2000}}

if __name__ == "__main__":
    main("Measures the skeleton of supersteps.", {"supersteps": supersteps}, needed="relax", directory="build/examples", options=OPTIONS)
