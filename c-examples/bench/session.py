"""Common part of all measurements: command line, heading, tables."""

import argparse
import os
import pathlib
import platform
import sys
import time

import jobs

MIB = 1 << 20
ROOT = pathlib.Path(__file__).resolve().parents[2]


class Table:
    """A Markdown table whose rows are printed at once."""

    def __init__(self, title, *columns):
        print(f"\n### {title}\n")
        self.row(*columns)
        self.row(*("---" for _ in columns))

    @staticmethod
    def row(*cells):
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def duration(seconds):
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(seconds) >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def verdict(value, aim, at_most=True):
    """The aim, and the result of the comparison with the value."""
    met = value <= aim if at_most else value >= aim
    return f"{'≤' if at_most else '≥'} {aim:g}: {'met' if met else 'missed'}"


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB, Linux {platform.release()}, one node"


def arguments_of(description, sections, directory, repetitions, options):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(sections))
    parser.add_argument("--release", default=ROOT / "target/release", help="where libunderstudy.so is")
    parser.add_argument("--programs", default=ROOT / directory, help="where the programs are")
    parser.add_argument("--repetitions", type=int, default=repetitions)
    for name, keywords in options.items():
        parser.add_argument(name, **keywords)
    arguments = parser.parse_args()
    unknown = set(arguments.sections) - set(sections)
    if unknown or arguments.repetitions < 1:
        parser.error(f"unknown section {unknown.pop()}" if unknown else "at least one repetition is needed")
    return arguments


def main(description, sections, needed, directory="build/bench", repetitions=5, options=None, begin=None):
    """Measures the sections that the command line names, or all.

    `sections` are functions of a Bench and the arguments, by name; `needed` is a program that must
    have been built, in `directory` below the root; `options` are further arguments; `begin` is
    called before the first section.
    """
    arguments = arguments_of(description, sections, directory, repetitions, options or {})
    bench = None
    try:
        bench = jobs.Bench(ROOT, arguments.release, arguments.programs, needed)
        print(f"Machine: {machine()}; {time.strftime('%Y-%m-%d')}; medians of {arguments.repetitions} repetitions; "
              f"load average {os.getloadavg()[0]:.1f} at the start")
        if begin:
            begin()
        for name in arguments.sections or sections:
            sections[name](bench, arguments)
    except jobs.Failed as failed:
        sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: {failed}")
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        if bench:
            bench.close()
