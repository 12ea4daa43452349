# imports.py MODULES ROUNDS PAUSE: imports one module after the other while it
# runs, uses each of them, and adds numbers up. Most modules open libraries.
# MODULES: "standard" or "numpy".
import sys
import time

from mpi4py import MPI


def use_json():
    import json
    return len(json.dumps({"a": [1, 2.5]}))


def use_decimal():
    import decimal
    decimal.getcontext().prec += 1
    return int(str(decimal.Decimal(1) / decimal.Decimal(7))[2:8])


def use_ctypes():
    import ctypes
    libm = ctypes.CDLL("libm.so.6")
    libm.cos.restype = ctypes.c_double
    libm.cos.argtypes = [ctypes.c_double]
    return int(libm.cos(0.5) * 1e6)


def use_sqlite():
    import sqlite3
    connection = sqlite3.connect(":memory:")
    connection.execute("create table t (v)")
    connection.executemany("insert into t values (?)", [(i,) for i in range(20)])
    return connection.execute("select sum(v * v) from t").fetchone()[0]


def use_elementtree():
    from xml.etree import ElementTree
    return len(ElementTree.fromstring("<a><b/><c x='1'/></a>"))


def use_zoneinfo():
    import datetime
    import zoneinfo
    return datetime.datetime(2020, 1, 1, tzinfo=zoneinfo.ZoneInfo("UTC")).hour + 3


def use_lzma():
    import bz2
    import lzma
    return len(lzma.compress(bytes(1000))) + len(bz2.compress(bytes(1000)))


def use_multibyte():
    return len("日本".encode("shift_jis"))


def use_hashlib():
    import hashlib
    return hashlib.sha256(b"a").digest()[3]


def use_asyncio():
    import asyncio

    async def four():
        return 4

    return asyncio.run(four())


def use_numpy():
    import numpy
    matrix = numpy.arange(2500.0).reshape(50, 50) % 17
    return int((matrix @ matrix).sum())


def use_linalg():
    import numpy
    matrix = numpy.arange(900.0).reshape(30, 30) % 13 + 50 * numpy.eye(30)
    return int(numpy.linalg.solve(matrix, numpy.ones(30)).sum() * 1e9)


def use_random():
    import numpy
    global generator
    generator = numpy.random.default_rng(5)
    return int(generator.integers(1000))


def use_fft():
    import numpy
    return int(abs(numpy.fft.fft(numpy.arange(64.0))).sum())


uses = {
    "standard": [use_json, use_decimal, use_ctypes, use_sqlite, use_elementtree, use_zoneinfo, use_lzma, use_multibyte,
                 use_hashlib, use_asyncio],
    "numpy": [use_numpy, use_json, use_linalg, use_decimal, use_random, use_fft],
}[sys.argv[1]]
rounds, pause = int(sys.argv[2]), float(sys.argv[3])
world = MPI.COMM_WORLD
value = world.rank
for number in range(rounds):
    # After all modules have been imported, they are used in turn.
    if number % 3 == 0:
        value += uses[number // 3 % len(uses)]()
    value = world.allreduce(value) % 1000003 + world.rank
    if world.rank == 0:
        print(f"round {number}: {value}", flush=True)
    time.sleep(pause)
print(f"rank {world.rank}: {value}, {len(sys.modules)} modules", flush=True)
