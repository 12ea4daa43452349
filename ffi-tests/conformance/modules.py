# modules.py DIRECTORY MODULE...: runs modules of mpi4py's own tests, in all ranks of a job, and
# prints the result of each test in each rank.
import importlib
import sys
import traceback
import unittest

from mpi4py import MPI

RANK = MPI.COMM_WORLD.Get_rank()


def say(text):
    # A single write, so that lines of several ranks do not mix.
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Result(unittest.TestResult):
    """Prints one line for each test; failures are described on standard error."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def tell(self, test, verdict, error=None):
        name = test.id().removeprefix(f"{self.module}.")
        say(f"{self.module} {RANK} {name}: {verdict}")
        if error is not None:
            text = "".join(traceback.format_exception(*error))
            sys.stderr.write(f"{self.module} {RANK} {name}: {verdict}\n{text}\n")
            sys.stderr.flush()

    def addSuccess(self, test):
        super().addSuccess(test)
        self.tell(test, "ok")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.tell(test, "failure", err)

    def addError(self, test, err):
        super().addError(test, err)
        self.tell(test, "error", err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.tell(subtest, "failure in a part", err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.tell(test, "skipped")

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.tell(test, "expected failure")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.tell(test, "unexpected success")


def run(module):
    result = Result(module)
    result.startTestRun()
    try:
        importlib.import_module(module)
        tests = unittest.defaultTestLoader.loadTestsFromName(module)
    except unittest.SkipTest:
        tests = unittest.TestSuite()
    tests.run(result)
    result.stopTestRun()
    say(
        f"{module} {RANK}: run {result.testsRun} failures {len(result.failures)} errors {len(result.errors)} "
        f"skipped {len(result.skipped)}"
    )


sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    run(name)
