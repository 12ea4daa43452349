#!/usr/bin/env python3
"""Measures the set-up log (journal), and the memory that replicas save by it.

    journal.py [--release DIR] [--programs DIR] [--workers N,N…] [--repetitions N] [SECTION...]

Each program runs with UNDERSTUDY_STATIC=replay; every worker has a trial replay. Medians over
workers and repetitions are printed: the (compressed) journal against the pages that it rebuilds,
the time of the replay against that of the phase, the replica at the buddy before and after its
reduction. The cost of recording is the ratio of the shortest times from the first to the second
checkpoint with UNDERSTUDY_STATIC=replay and with UNDERSTUDY_STATIC=image; runs of both modes
alternate. Nothing here passes or fails. Called by `make bench-journal`, which puts MPI on the PATH.
Sections are programs: sem, cg, heat2d, and lmp (LAMMPS) if it is installed.
"""

import functools
import shutil
import statistics

from session import MIB, Table, duration, main

PAGE = 4096
median = statistics.median

LAMMPS = """units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 20 0 20 0 20
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify delay 5 every 1
fix 1 all nve
thermo 5
run 200
"""


# Command and interval of each program; {} is the directory for input.
PROGRAMS = {
    "sem": (["sem", 16, 8, 12, 8], "60calls"),
    "cg": (["cg", 300, 300, 6], "60calls"),
    "heat2d": (["heat2d", 2000, 2000, 1200], "60calls"),
}
if shutil.which("lmp"):
    PROGRAMS["lmp"] = ([shutil.which("lmp"), "-in", "{}/melt.in", "-log", "none"], "6calls")


def until_second_cut(events):
    """Seconds from the first checkpoint, at the end of MPI_Init, to the next one, in worker 0."""
    cuts = {event["epoch"]: event["at"] for event in events if event["type"] == "cut" and event["rank"] == 0}
    return (cuts[2] - cuts[1]) * 1e-9 if 2 in cuts else None


def once(bench, command, interval, workers):
    """Results of one run in each mode.

    These are the trial replay and the reduction of the replica, by worker, and the time up to the
    second cut, by mode.
    """
    took = {}
    for mode in ("image", "replay"):
        directory = bench.events_dir()
        bench.run(*command, layer=True, ranks=workers + 1, events=directory, INTERVAL=interval, STATIC=mode, JOURNAL_LIMIT="1000%")
        events = bench.events(directory)
        took[mode] = until_second_cut(events)
    rehearsed, thinned = {}, {}
    for event in events:
        if event["type"] == "rehearsal":
            rehearsed[event["worker"]] = event
        elif event["type"] == "thinned":
            thinned[event["worker"]] = event
    return rehearsed, thinned, took


def measure(name, bench, arguments):
    (bench.scratch / "melt.in").write_text(LAMMPS, encoding="ascii")
    command, interval = PROGRAMS[name]
    command = [str(word).format(bench.scratch) for word in command]
    for workers in map(int, arguments.workers.split(",")):
        measure_with(bench, name, command, interval, workers, arguments.repetitions)


def measure_with(bench, name, command, interval, workers, repetitions):
    rows, times, failures = [], [], set()
    for _ in range(repetitions):
        rehearsed, thinned, took = once(bench, command, interval, workers)
        times += [took] if all(took.values()) else []
        for worker, event in rehearsed.items():
            if event["failure"]:
                failures.add(event["failure"])
            elif worker in thinned:
                rows.append((event, thinned[worker]))
    if not rows:
        Table.row(name, str(workers), *(["–"] * 8), "; ".join(failures) or "the run was over before")
        return
    of = lambda value: median(value(event, thin) for event, thin in rows)
    journal = of(lambda event, _: event["journal"])
    rebuilt = of(lambda _, thin: thin["pages"]) * PAGE
    whole = of(lambda _, thin: thin["pages"] + thin["left"]) * PAGE
    left = of(lambda _, thin: thin["left"]) * PAGE
    replay = of(lambda event, _: event["replay_ns"]) * 1e-9
    phase = of(lambda event, _: event["phase_ns"]) * 1e-9
    best = {mode: min((took[mode] for took in times), default=None) for mode in ("image", "replay")}
    cost = f"{best['replay'] / best['image']:.3f}" if times else "–"
    ratio = of(lambda event, _: event["replay_ns"] / event["phase_ns"])
    Table.row(name, str(workers), f"{journal / 1024:.0f} KiB", f"{rebuilt / MIB:.1f} MiB", f"{100 * journal / max(rebuilt, 1):.2f} %",
              duration(phase), duration(replay), f"{ratio:.2f}", cost, f"{whole / MIB:.1f} → {left / MIB:.2f} MiB",
              f"{of(lambda event, _: event['different']):.0f} of {of(lambda event, _: event['pages']):.0f}")


def begin():
    Table("Set-up log of each worker, with one spare", "program", "workers", "journal",
          "rebuilt pages", "ratio", "phase", "replay", "replay / phase",
          "time with / without recording", "replica at the buddy", "pages that differ")


OPTIONS = {"--workers": {"default": "2,4,8", "help": "numbers of workers"}}

if __name__ == "__main__":
    main("Measures the set-up log.", {name: functools.partial(measure, name) for name in PROGRAMS},
         needed="sem", directory="build/examples", repetitions=3, options=OPTIONS, begin=begin)
