"""Two hosts on this machine, made of namespaces, of which the second can be lost."""

import pathlib
import shutil
import subprocess
import tempfile

import jobs

SCRIPT = pathlib.Path(__file__).parents[2] / "ffi-tests/src/hosts.sh"
NAMESPACES = ("--net", "--uts", "--mount", "--pid")


class Hosts:
    """Hosts with the given names for the time of a `with` block; needs root."""

    names = ("benchhost1", "benchhost2")

    def __init__(self, bench):
        self.directory = pathlib.Path(tempfile.mkdtemp(dir=bench.scratch))

    def __enter__(self):
        line = ["unshare", *NAMESPACES, "--fork", "--kill-child", "--mount-proc", "sh", SCRIPT,
                "first", self.directory, self.names[0][:-1], str(len(self.names))]
        self.first = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      text=True)
        if self.first.stdout.readline() != "ready\n":
            raise jobs.Failed("hosts need namespaces, and therefore root")
        return self

    def __exit__(self, *_):
        self.first.stdin.close()
        self.first.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def on_first(self):
        """Command line that runs its arguments on the first host."""
        namespaces = f"/proc/{self.first.pid}/ns"
        entered = (("net", "net"), ("uts", "uts"), ("mount", "mnt"), ("pid", "pid_for_children"))
        options = [f"--{kind}={namespaces}/{name}" for kind, name in entered]
        return ["nsenter", *options, "--wdns=/", "env", f"TMPDIR={self.directory}/tmp"]

    def run(self, understudy, spares):
        """Command line of `understudy run` with one worker on each host."""
        return [*self.on_first(), str(understudy), "run", "--launcher", "ckptd", "--host",
                ",".join(f"{name}:1" for name in self.names), "--agent", self.directory / "agent",
                "--oversubscribe", "-n", str(jobs.WORKERS), "--spares", str(spares)]

    def lose(self):
        """Kills all processes of the second host at once."""
        pid = (self.directory / self.names[1]).read_text().strip()
        subprocess.run([*self.on_first(), "kill", "-KILL", pid], check=True)
