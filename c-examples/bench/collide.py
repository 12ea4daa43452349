#!/usr/bin/env python3
"""Compares saving states with computing backwards, on colliding particles.

    collide.py [--programs DIR] [--repetitions N] [--particles N,N…] [--processes N,N…] [--pairs N] [SECTION...]

Understudy is not used. The schemes of `collide` run in turn. Medians are printed, in processor
time, and ratios of neighbouring jobs. The return to a saved state is one copy, whatever its age.
The time to compute backwards grows with the number of collisions since that state. With a million
particles `full` saves 3 GiB in each process. Sections: rounded (numbers are doubles), fixed
(integers, without rounding). Called by `make bench-collide`, which puts MPI on the PATH.
"""

import statistics

from session import MIB, Table, duration, main, verdict

median = statistics.median

SCHEMES = ("full", "optimal", "pages", "reverse")


def runs_of(bench, arguments, program, particles, ranks):
    runs = {scheme: [] for scheme in SCHEMES}
    for _ in range(arguments.repetitions):
        for scheme in SCHEMES:
            printed = bench.run(program, scheme, particles, arguments.pairs, ranks=ranks)
            # Processor time is the first of the two values.
            runs[scheme].append({words[0]: float(words[1]) for words in printed})
    return runs


def compare(bench, arguments, program, what, error_aim):
    for particles in arguments.particles:
        for ranks in arguments.processes:
            runs = runs_of(bench, arguments, program, particles, ranks)
            collisions = runs["reverse"][0]["collisions"]
            table = Table(f"{what}: {particles} particles, {collisions:.0f} collisions of "
                          f"{arguments.pairs} pairs, {ranks} "
                          f"process{'es, each' if ranks > 1 else ''}", "scheme", "forward",
                          "ratio to reverse", "best", "saved", "back to the beginning",
                          "forward and back, ratio to optimal's forward", "error")
            reverse, optimal = runs["reverse"], runs["optimal"]
            for scheme, own in runs.items():
                ratio = median(a["forward"] / b["forward"] for a, b in zip(own, reverse))
                best = min(run["forward"] for run in own) / min(run["forward"] for run in reverse)
                cells = ["one copy", ""]
                if scheme == "reverse":
                    worst = median((a["forward"] + a["back"]) / b["forward"] for a, b in zip(own, optimal))
                    cells = [duration(median(run["back"] for run in own)), f"{worst:.2f}; {verdict(worst, 1.1)} (paper: 0.94)"]
                paper = " (paper: 2.02)" if scheme == "optimal" else ""
                table.row(scheme, duration(median(run["forward"] for run in own)), f"{ratio:.2f}{paper}", f"{best:.2f}",
                          f"{median(run['saved'] for run in own) / MIB:.0f} MiB", *cells, f"{max(run['error'] for run in own):.1g}")
            error = max(run["error"] for run in reverse)
            of_optimal = median(a["forward"] / b["forward"] for a, b in zip(reverse, optimal))
            of_full = median(a["forward"] / b["forward"] for a, b in zip(optimal, runs["full"]))
            print(f"\nreverse / optimal {of_optimal:.2f} {verdict(of_optimal, 0.65)}; optimal / full {of_full:.2f} {verdict(of_full, 0.8)}; "
                  f"error {error:.1g} {verdict(error, error_aim)}")


def rounded(bench, arguments):
    compare(bench, arguments, "collide", "Doubles", 1e-9)


def fixed(bench, arguments):
    compare(bench, arguments, "collide_fixed", "Integers", 0.0)


OPTIONS = {
    "--particles": {"type": lambda text: [int(word) for word in text.split(",")], "default": [100_000, 1_000_000]},
    "--processes": {"type": lambda text: [int(word) for word in text.split(",")], "default": [1, 2]},
    "--pairs": {"type": int, "default": 200},
}

if __name__ == "__main__":
    main("Compares saving states with computing backwards.", {"rounded": rounded, "fixed": fixed}, needed="collide", options=OPTIONS)
