#!/usr/bin/env python3
"""Writes the licences of all crates that are linked into the installed files.

    packaging/notices.py FILE      writes FILE
    packaging/notices.py --check   exits with status 1 if THIRD-PARTY is not up to date

Only crates that are linked are listed: no build tools, procedural macros and tests.
Of a crate that may be used under the MIT licence or another one, the MIT licence is taken.
"""

import hashlib
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NOTICES = ROOT / "THIRD-PARTY"
TARGET = "x86_64-unknown-linux-gnu"
# Packages with tests, and with tools that are not installed.
NOT_INSTALLED = {"ffi-tests", "understudy-table"}
HEAD = """\
understudy is built from the crates below, which are linked into its files, and from the Rust
standard library (MIT OR Apache-2.0, https://github.com/rust-lang/rust). Written by
packaging/notices.py.
"""


def cargo(*arguments):
    command = ["cargo", *arguments, "--locked", "--offline"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def linked_packages():
    """Returns the third-party packages that are linked, ordered by name and version."""
    excluded = [word for name in NOT_INSTALLED for word in ("--exclude", name)]
    tree = cargo("tree", "--workspace", *excluded, "--target", TARGET, "--edges", "normal,no-proc-macro",
                 "--prefix", "none", "--format", "{p}")
    linked = {tuple(line.split()[:2]) for line in tree.splitlines() if line.strip()}
    metadata = json.loads(cargo("metadata", "--format-version", "1", "--filter-platform", TARGET))
    others = [package for package in metadata["packages"]
              if package["source"] and (package["name"], "v" + package["version"]) in linked]
    return sorted(others, key=lambda it: (it["name"], it["version"]))


def licence_files(package):
    """Returns the licence files of a package, and those of the C sources that it contains."""
    directory = pathlib.Path(package["manifest_path"]).parent
    names = ("licen", "copying", "notice", "unlicense")
    files = [path for path in directory.iterdir() if path.is_file() and path.name.lower().startswith(names)]
    mit = [path for path in files if "mit" in path.name.lower()]
    # The crate zstd-sys contains the sources of libzstd.
    bundled = [path for path in directory.glob("*/LICENSE") if path.parent.name == "zstd"]
    return sorted(mit or files) + bundled


def notices():
    texts, users = {}, {}
    lines = [HEAD]
    for package in linked_packages():
        title = f"{package['name']} {package['version']}"
        lines.append(f"{title}: {package['license']}, {package['repository'] or 'crates.io'}")
        files = licence_files(package)
        if not files:
            lines[-1] += " (without a file of its licence)"
        for path in files:
            text = "\n".join(line.rstrip() for line in path.read_text(errors="replace").strip().splitlines())
            key = hashlib.sha256(" ".join(text.split()).encode()).hexdigest()
            texts.setdefault(key, text)
            users.setdefault(key, []).append(title)
    for key, text in texts.items():
        lines += ["", "-" * 78, "Licence of " + ", ".join(users[key]), "", text]
    return "\n".join(lines) + "\n"


def main():
    if sys.argv[1:] == ["--check"]:
        if NOTICES.read_text() != notices():
            sys.exit(f"{NOTICES.name} is not up to date: packaging/notices.py {NOTICES.name}")
    elif len(sys.argv) == 2:
        pathlib.Path(sys.argv[1]).write_text(notices())
    else:
        sys.exit(__doc__)


main()
