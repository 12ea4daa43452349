#!/usr/bin/env python3
"""Measures how memory, checkpoints and recoveries change with the number of workers.

The measurements follow figures 3 to 6 of Cantwell and Nielsen (2018).

    scaling.py [--release DIR] [--programs DIR] [--repetitions N] [--workers N,N…] [--elements EXxEY] [SECTION...]

The program is c-examples/sem.cpp, a flow solver by spectral elements with a gather-scatter library,
unmodified. The size of the problem is constant, so each worker has a smaller share with more
workers (strong scaling). Nothing here passes or fails. Called by `make bench-scaling`, which puts
MPI on the PATH.

Sections: memory (figure 3a: static data, the log that replaces them, replicas of dynamic data, in
each worker), checkpoint (figure 4: in memory, on disk, compared with the time between two
checkpoints), recovery (figure 5: after one failure, with replicas of static data and with their
log, and the cost of a start), failures (figure 6: several workers killed at once). With more ranks
than processors, the results include the sharing of processors.
"""

import os
import signal
import statistics
import time
from concurrent.futures import ProcessPoolExecutor

import jobs
from session import MIB, ROOT, Table, duration, main

median = statistics.median

PAGE = 4096
SEM = ROOT / "build/examples/sem"
DEGREE, ENDLESS = 10, 100000
INTERVAL = "60calls"
# Checkpoints are measured from this one on; earlier checkpoints also capture static data.
FIRST = 3
AT_ONCE = (1, 2, 3)


def problem(arguments):
    return [*arguments.elements.split("x"), DEGREE, ENDLESS]


class Run:
    """A running job and its event files."""

    def __init__(self, bench, process, directory):
        self.bench, self.process, self.directory = bench, process, directory

    def events(self, kind=None):
        """Records so far, of one kind or all."""
        try:
            found = self.bench.events(self.directory)
        except (jobs.Failed, ValueError):
            return []
        return [event for event in found if kind in (None, event["type"])]

    def wait_for(self, condition, what):
        """Waits for the first true value of a function of this job and returns it."""
        def look():
            if self.process.poll() is not None:
                raise jobs.Failed(f"the job has ended before {what}")
            time.sleep(0.2)
            return condition(self)
        return jobs.wait_until(look, what)

    def pids(self, workers):
        """The process of each worker, as long as none has failed."""
        found = {event["role"]["worker"]: event["pid"] for event in self.events("start") if "worker" in event["role"]}
        return [found[worker] for worker in range(workers)]


def has_committed(epoch, workers):
    return lambda run: len([0 for event in run.events("commit") if event["epoch"] == epoch]) >= workers


def has_thinned(workers):
    """Condition: the replicas of all workers have been reduced."""
    return lambda run: {event["worker"]: event for event in run.events("thinned")} if len(run.events("thinned")) >= workers else None


def start(bench, arguments, workers, use, spares=1, mode="image"):
    """Starts a job under understudy, returns the result of `use`, and ends the job."""
    directory = bench.events_dir()
    settings = {"SPARES": spares, "INTERVAL": INTERVAL, "STATIC": mode, "JOURNAL_LIMIT": "1000%"}
    with bench.job(SEM, *problem(arguments), layer=True, ranks=workers + spares, events=directory, **settings) as process:
        return use(Run(bench, process, directory))


def over_workers(arguments):
    return [int(workers) for workers in arguments.workers.split(",")]


def mib(value):
    return f"{value / MIB:.3g} MiB"


# --- figure 3a: memory ----------------------------------------------------------------


def memory(bench, arguments):
    table = Table("Memory of a worker by part, static data stored as a log (figure 3a)", "workers",
                  "static data", "their log", "log / static data", "replica of the rest",
                  "a checkpoint's pages", "proportional set size",
                  "that of a rank without understudy")
    for workers in over_workers(arguments):
        thinned, dynamic, own = [], [], []

        def look(run):
            thinned.extend(run.wait_for(has_thinned(workers), "reduced replicas").values())
            dynamic.extend(event["bytes"] for event in run.events("capture") if event["epoch"] >= FIRST)
            own.append(jobs.memory(run.pids(workers))[1] / workers)

        plain = []
        for _ in range(arguments.repetitions):
            start(bench, arguments, workers, look, mode="replay")
            with bench.job(SEM, *problem(arguments), ranks=workers) as process:
                time.sleep(2)
                plain.append(jobs.memory(jobs.ranks(process.pid, "sem"))[1] / workers)
        static, log, left = (median(value(event) for event in thinned) for value in (
            lambda event: event["pages"] * PAGE, lambda event: event["journal"], lambda event: event["left"] * PAGE))
        table.row(workers, mib(static), mib(log), f"{100 * log / static:.2g} %", mib(left), mib(median(dynamic)),
                  f"{median(own):.3g} MiB", f"{median(plain):.3g} MiB")


# --- figure 4: checkpoints ---------------------------------------------------------------


def write_out(path_and_bytes):
    """Does the work of a rank that stores its checkpoint on disk."""
    path, count = path_and_bytes
    with open(path, "wb", buffering=0) as file:
        file.write(os.urandom(count))
        os.fsync(file.fileno())


def on_disk(bench, workers, count):
    """Seconds for all workers to write `count` bytes each, at once."""
    paths = [(bench.scratch / f"checkpoint-{worker}", count) for worker in range(workers)]
    with ProcessPoolExecutor(workers) as pool:
        list(pool.map(write_out, [(path, 1) for path, _ in paths]))
        begin = time.monotonic()
        list(pool.map(write_out, paths))
        return time.monotonic() - begin


def checkpoint(bench, arguments):
    table = Table("A checkpoint in memory and on disk, beside the time between two of them (figure 4)", "workers", "bytes of a worker",
                  "captured in", "safe at the buddy after", "written to disk in", "disk / memory", "from one to the next")
    for workers in over_workers(arguments):
        captured, safe, sizes, disk, apart = [], [], [], [], []

        def look(run):
            run.wait_for(has_committed(FIRST + 20, workers), f"epoch {FIRST + 20}")
            of = lambda kind: [event for event in run.events(kind) if FIRST <= event["epoch"] <= FIRST + 20]
            captured.extend((event["scan_ns"] + event["copy_ns"]) * 1e-9 for event in of("capture"))
            sizes.extend(event["bytes"] for event in of("capture"))
            safe.extend(event["ns"] * 1e-9 for event in of("commit"))
            cuts = sorted(event["at"] for event in of("cut") if event["rank"] == 0)
            apart.extend((after - before) * 1e-9 for before, after in zip(cuts, cuts[1:]))

        for _ in range(arguments.repetitions):
            start(bench, arguments, workers, look)
            disk.append(on_disk(bench, workers, int(median(sizes))))
        table.row(workers, mib(median(sizes)), duration(median(captured)), duration(median(safe)), duration(median(disk)),
                  f"{median(disk) / median(safe):.2g}", duration(median(apart)))


# --- figures 5 and 6: recoveries ---------------------------------------------------------


def recover(bench, arguments, workers, mode, victims):
    """Seconds from the simultaneous kill of these workers until the last rank has resumed."""
    def kill(run):
        ready = has_thinned(workers) if mode == "replay" else has_committed(FIRST, workers)
        run.wait_for(ready, "checkpoints")
        pids = run.pids(workers)
        killed = time.monotonic_ns()
        for victim in victims:
            os.kill(pids[victim], signal.SIGKILL)
        taken = lambda run: len([event for event in run.events("takeover")]) >= len(victims) and run.events("resume")
        run.wait_for(taken, "recovery")
        time.sleep(0.5)
        return (max(event["at"] for event in run.events("resume")) - killed) * 1e-9
    return start(bench, arguments, workers, kill, spares=len(victims), mode=mode)


def begun(bench, layer, workers):
    """Seconds from the start of mpirun to the end of MPI_Init."""
    begin = time.monotonic_ns()
    printed = bench.run("idle", 0, layer=layer, ranks=workers + layer)
    return (int(printed[0][1]) - begin) * 1e-9


def recovery(bench, arguments):
    table = Table("From the kill of a worker until the last rank has resumed, and start (figure 5)",
                  "workers", "replicas of static data", "their log", "start without understudy",
                  "start with understudy")
    for workers in over_workers(arguments):
        took = [median(recover(bench, arguments, workers, mode, [1]) for _ in range(arguments.repetitions)) for mode in ("image", "replay")]
        starts = [median(begun(bench, layer, workers) for _ in range(arguments.repetitions)) for layer in (False, True)]
        table.row(workers, *map(duration, took + starts))


def failures(bench, arguments):
    workers = max(over_workers(arguments))
    columns = [f"{count} at once" for count in AT_ONCE]
    table = Table(f"From the kill of several of {workers} workers until the last rank has resumed "
                  "(figure 6)", "static data", *columns)
    for mode, name in (("image", "replicas"), ("replay", "log")):
        # Neighbours store each other's replicas: every second worker is killed.
        times = [median(recover(bench, arguments, workers, mode, range(0, 2 * count, 2)) for _ in range(arguments.repetitions))
                 for count in AT_ONCE]
        table.row(name, *map(duration, times))


SECTIONS = {"memory": memory, "checkpoint": checkpoint, "recovery": recovery, "failures": failures}
OPTIONS = {"--workers": {"default": "2,4,8,16", "help": "numbers of workers; for failures the largest counts, at least 6"},
           "--elements": {"default": "16x8", "help": "elements of the flow solver's grid"}}

if __name__ == "__main__":
    main("Measures how memory, checkpoints and recoveries change with the number of workers.", SECTIONS, needed="idle", repetitions=3,
         options=OPTIONS)
