#!/usr/bin/env python3
"""Runs mpi4py's own tests without and with understudy, and compares the result of every test.

Each module of tests is run by one job without and one with understudy, on two ranks. The exit
status is 1 if a module differs.
Logs are in build/conformance."""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".env/python"
TESTS = PYTHON / "mpi4py-tests"
LOGS = ROOT / "build/conformance"
RANKS = 2
# Modules that are refused under protection (docs/reference/calls.md): shown, but not counted as
# different.
REFUSED = {"test_ulfm"}
SUMMARY = re.compile(r"^(\w+) (\d+): run (\d+) failures (\d+) errors (\d+) skipped (\d+)$")
OPEN_MPI = ["--oversubscribe", "--mca", "btl", "self,sm,tcp", "--mca", "mpi_yield_when_idle", "1"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="test_rma, say; all of them by default")
    parser.add_argument("--mpich", action="store_true", help="with the MPICH in .env instead of Open MPI")
    parser.add_argument("--fault", action="append", default=[], help="UNDERSTUDY_FAULT, in a run each")
    parser.add_argument("--interval", default="0.2s", help="UNDERSTUDY_INTERVAL (default: %(default)s)")
    parser.add_argument("--limit", type=int, default=300, help="seconds of a job (default: %(default)s)")
    parser.add_argument("--old", action="store_true",
                        help="compare with the logs of the last run without understudy")
    return parser.parse_args()


def command(options, layer, fault, work):
    """Returns the command line and environment of a job."""
    home = ROOT / (".env/mpich" if options.mpich else ".env/venv")
    place = os.environ | {
        "LD_LIBRARY_PATH": str(home / "lib"),
        "MPI4PY_MPIABI": "mpich" if options.mpich else "openmpi",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONWARNINGS": "ignore",
        "TMPDIR": work,
    }
    place.pop("LD_PRELOAD", None)
    if layer:
        place |= {"UNDERSTUDY_INTERVAL": options.interval, "UNDERSTUDY_EVENTS": f"{work}/events"}
    if fault:
        place["UNDERSTUDY_FAULT"] = fault
    release = ROOT / "target/release"
    if layer and options.mpich:
        start = [release / "ckptd", "launch", "-n", str(RANKS), "--spares", "1", "--mpi", home / "lib/libmpi.so.12", "--"]
    elif options.mpich:
        start = [home / "bin/mpiexec", "-n", str(RANKS)]
    else:
        start = ["mpirun", *OPEN_MPI, "-n", str(RANKS + layer)]
        if layer:
            start += ["-x", f"LD_PRELOAD={release}/libunderstudy.so", "-x", "UNDERSTUDY_SPARES=1"]
            start += [part for name in place if name.startswith("UNDERSTUDY_") for part in ("-x", name)]
    return ["timeout", "-k", "5", str(options.limit), *start], place


class Run:
    """Results of a job: the verdict on each test in each rank."""

    def __init__(self, options, module, kind, fault=None):
        LOGS.mkdir(parents=True, exist_ok=True)
        log = LOGS / f"{module}.{'mpich.' if options.mpich else ''}{kind}"
        self.status = 0
        if not (kind == "plain" and options.old and pathlib.Path(f"{log}.out").exists()):
            self.start(options, module, kind, fault, log)
        lines = pathlib.Path(f"{log}.out").read_text(errors="replace").splitlines()
        self.verdicts = dict(line.rsplit(": ", 1) for line in lines if line.startswith(f"{module} ") and ": " in line)
        counts = [tuple(map(int, found.groups()[2:])) for line in lines if (found := SUMMARY.match(line))]
        self.counts = tuple(map(sum, zip(*counts))) if len(counts) == RANKS else None
        errors = pathlib.Path(f"{log}.err").read_text(errors="replace")
        killed = "one killed" if "; replaced by " in errors else "none killed"
        self.end = f", {killed}" if fault else ""

    def start(self, options, module, kind, fault, log):
        with tempfile.TemporaryDirectory() as work, open(f"{log}.out", "wb") as out, open(f"{log}.err", "wb") as err:
            line, place = command(options, kind != "plain", fault, work)
            line += [PYTHON / "bin/python3", ROOT / "ffi-tests/conformance/modules.py", TESTS, module]
            status = subprocess.run(line, cwd=work, env=place, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        self.status = status.returncode

    def text(self):
        """Columns of the run in the table."""
        if self.counts is None or self.status:
            end = {124: "hangs", 137: "hangs"}.get(self.status, f"status {self.status}")
            return f"{end} after {len(self.verdicts)} verdicts{self.end}"
        run, failures, errors, skipped = self.counts
        return f"{run - failures - errors - skipped} ok {failures + errors} failed {skipped} skipped{self.end}"


def different(plain, layer):
    names = plain.verdicts.keys() | layer.verdicts.keys()
    return sorted(name for name in names if plain.verdicts.get(name) != layer.verdicts.get(name))


def main():
    options = arguments()
    if not TESTS.is_dir():
        sys.exit("mpi4py's tests are not installed; `make python` installs them")
    modules = options.modules or sorted(path.stem for path in TESTS.glob("test_*.py"))
    bad = 0
    print(f"{'module':<24} {'plain':<34} with understudy", flush=True)
    for module in modules:
        plain = Run(options, module, "plain")
        for number, fault in enumerate(options.fault or [None]):
            layer = Run(options, module, f"layer{number}" if fault else "layer", fault)
            names = different(plain, layer)
            same = not names and plain.status == layer.status
            is_refused = module in REFUSED
            bad += not same and not is_refused
            told = "" if same else "   refused" if is_refused else "   DIFFERENT"
            print(f"{module:<24} {plain.text():<34} {layer.text()}{told}", flush=True)
            if is_refused:
                continue
            for name in names[:6]:
                print(f"    {name}: {plain.verdicts.get(name)} / {layer.verdicts.get(name)}", flush=True)
            if len(names) > 6:
                print(f"    … {len(names)} tests differ")
    print(f"{len(modules)} modules, {bad} runs different", flush=True)
    sys.exit(bad > 0)


main()
