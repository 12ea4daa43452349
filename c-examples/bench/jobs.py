"""Starts MPI jobs with and without understudy, and observes them from outside."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import tempfile
import time

WORKERS, SPARES = 2, 1
MPIRUN = ["mpirun", "--oversubscribe", "--mca", "btl", "self,sm", "--mca", "pml", "ob1",
          "--mca", "mpi_yield_when_idle", "1"]
LIMIT_S = 300


class Failed(Exception):
    """A job has failed, or has printed unexpected output."""


class Bench:
    """Paths of the programs, and commands of jobs."""

    def __init__(self, root, release, programs, needed):
        self.programs = pathlib.Path(programs)
        self.layer = pathlib.Path(release) / "libunderstudy.so"
        self.understudy = pathlib.Path(release) / "understudy"
        self.mpich = root / ".env/mpich/bin/mpiexec"
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="understudy-bench-"))
        for path in (self.layer, self.understudy, self.programs / needed):
            if not path.exists():
                raise Failed(f"{path} is missing; run make bench in {root}")
        if shutil.which("mpirun") is None:
            raise Failed('there is no mpirun on the PATH; run make bench, or first: eval "$(make -s env)"')

    def close(self):
        shutil.rmtree(self.scratch, ignore_errors=True)

    def command(self, program, arguments, layer, ranks=None, events=None, mpich=False, hosts=None,
                **settings):
        """Command line of a job; `settings` are variables of understudy without their prefix."""
        if hosts:
            line = hosts.run(self.understudy, settings.pop("SPARES", SPARES))
            variables = [f"UNDERSTUDY_{name}={value}" for name, value in settings.items()]
            return ["env", *variables, *line, "--events", events, "--",
                    str(self.programs / program), *map(str, arguments)]
        spares = settings.get("SPARES", SPARES) if layer else 0
        count = str(ranks or WORKERS + spares)
        line = [str(self.mpich), "-n", count] if mpich else [*MPIRUN, "-n", count]
        if layer:
            settings = {"SPARES": SPARES, "REQUIRE": 1, **settings}
            if events:
                settings["EVENTS"] = events
            variables = {"LD_PRELOAD": self.layer, **{f"UNDERSTUDY_{name}": value for name, value in settings.items()}}
            for name, value in variables.items():
                line += ["-env", name, str(value)] if mpich else ["-x", f"{name}={value}"]
        programs = self.programs / "mpich" if mpich else self.programs
        return [*line, str(programs / program), *map(str, arguments)]

    def run(self, program, *arguments, layer=False, **settings):
        """Runs a job to its end; returns its output as lists of words."""
        line = self.command(program, arguments, layer, **settings)
        try:
            done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
        except subprocess.TimeoutExpired as expired:
            raise Failed(f"not finished after {LIMIT_S} s: {' '.join(line)}") from expired
        if done.returncode != 0:
            raise Failed(f"status {done.returncode}: {' '.join(line)}\n{done.stderr}")
        return [words.split() for words in done.stdout.splitlines()]

    def timed(self, line):
        """Runs a command to its end.

        Returns its output, wall time, and processor time of all its processes, in seconds.
        """
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            begin = time.monotonic()
            process = subprocess.Popen(["timeout", str(LIMIT_S), *line], stdin=subprocess.DEVNULL, stdout=out, stderr=err)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            wall = time.monotonic() - begin
            out.seek(0)
            err.seek(0)
            if status != 0:
                raise Failed(f"status {process.returncode}: {' '.join(line)}\n{err.read()}")
            return out.read(), wall, usage.ru_utime + usage.ru_stime

    def report(self, directory):
        """Output of `understudy events` for a job's event files."""
        done = subprocess.run([self.understudy, "events", "--json", directory], capture_output=True, text=True)
        if not done.stdout:
            raise Failed(f"no events in {directory}: {done.stderr}")
        return json.loads(done.stdout)

    @contextlib.contextmanager
    def job(self, program, *arguments, layer=False, **settings):
        """A job that runs during the block, and is killed at the end of the block."""
        line = self.command(program, arguments, layer, **settings)
        process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(10)
            if process.poll() is None:
                process.kill()
                process.wait()
            process.stdout.close()

    def events_dir(self):
        """Makes a new directory for event files."""
        return pathlib.Path(tempfile.mkdtemp(dir=self.scratch))

    def events(self, directory):
        """Records of all ranks in order of time, with `at` in nanoseconds of CLOCK_MONOTONIC."""
        # Each file's header has the clock after magic, version, rank and the realtime clock.
        origin = min(struct.unpack_from("<Q", path.read_bytes(), 24)[0] for path in directory.glob("rank-*.events"))
        timeline = self.report(directory)["timeline"]
        return [{"rank": entry["rank"], "at": origin + entry["at_ns"], **entry["event"]} for entry in timeline]


def wait_until(condition, what, limit_s=LIMIT_S):
    """Waits for the first true value of `condition` and returns it."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.001)
    raise Failed(f"after {limit_s} s still no {what}")


def children(parent):
    """Children of a process, oldest first."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            stat = pathlib.Path("/proc", entry, "stat").read_text(encoding="utf-8", errors="replace")
            # After the name, which may contain anything: state, parent, and as the twentieth field
            # the start time.
            fields = stat.rpartition(")")[2].split()
            if int(fields[1]) == parent:
                found.append((int(fields[19]), int(entry)))
    return [pid for _, pid in sorted(found)]


def ranks(launcher, program):
    """Processes of a program in the order of their ranks.

    They are mpirun's children, or grandchildren if the children are guardians.
    """
    def is_rank(pid):
        return pathlib.Path("/proc", str(pid), "comm").read_text(encoding="utf-8", errors="replace").strip() == program
    return [next(pid for pid in (child, *children(child)) if is_rank(pid)) for child in children(launcher)]


def memory(pids):
    """Sums of resident and proportional set sizes in MiB."""
    sums = {"Rss": 0, "Pss": 0}
    for pid in pids:
        for line in pathlib.Path("/proc", str(pid), "smaps_rollup").read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(":")
            if name in sums:
                sums[name] += int(value.split()[0])
    return sums["Rss"] / 1024, sums["Pss"] / 1024


def cpu_ns(pids):
    """Processor time so far, in nanoseconds."""
    return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0])
               for pid in pids for task in pathlib.Path("/proc", str(pid), "task").iterdir())
