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
        self.first = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.first.stdout.readline() != "ready\n":
            raise jobs.Failed("hosts need namespaces, and therefore root")
        return self

    def __exit__(self, *_):
        self.first.stdin.close()
        self.first.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def on_first(self):
        """Command line that runs its arguments on the first host."""
        pid = self.first.pid
        of_child = [f"--pid=/proc/{pid}/ns/pid_for_children"]
        first = jobs.children(pid)[0]
        own = [f"--{kind}=/proc/{first}/ns/{name}" for kind, name in (("net", "net"), ("uts", "uts"), ("mount", "mnt"))]
        return ["nsenter", *own, *of_child, "--wdns=/", "env", f"TMPDIR={self.directory}/tmp"]

    def run(self, understudy, spares):
        """Command line of `understudy run` with one worker on each host."""
        return [*self.on_first(), str(understudy), "run", "--launcher", "ckptd", "--host",
                ",".join(f"{name}:1" for name in self.names), "--agent", self.directory / "agent",
                "--oversubscribe", "-n", str(jobs.WORKERS), "--spares", str(spares)]

    def lose(self):
        """Kills all processes of the second host at once."""
        pid = (self.directory / self.names[1]).read_text().strip()
        subprocess.run([*self.on_first(), "kill", "-KILL", pid], check=True)
