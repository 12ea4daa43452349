# hashes.py LIBMPI ROUNDS: imports compiled modules in the order of a set before
# the MPI library, and adds numbers up in the order of another set. The order
# depends on the random numbers with which Python seeds its hash tables. Also
# prints if numbers of os.urandom differ between ranks, as they must.
import importlib
import os
import sys

MODULES = {"_bz2", "_ctypes", "_decimal", "_hashlib", "_json", "_lzma", "_sqlite3", "_ssl", "_zoneinfo", "termios"}
for module in MODULES:
    importlib.import_module(module)

import ctypes
library, rounds = sys.argv[1], int(sys.argv[2])
drawn = int.from_bytes(os.urandom(6), "little")
mpi = ctypes.CDLL(library, ctypes.RTLD_GLOBAL)


def handle(name):
    return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name)))


world, double, add, most = map(
    handle, ("ompi_mpi_comm_world", "ompi_mpi_double", "ompi_mpi_op_sum", "ompi_mpi_op_max"))
mpi.MPI_Init(None, None)
rank = ctypes.c_int()
mpi.MPI_Comm_rank(world, ctypes.byref(rank))


def all_reduce(value, operation):
    mine, result = ctypes.c_double(value), ctypes.c_double()
    mpi.MPI_Allreduce(ctypes.byref(mine), ctypes.byref(result), 1, double, operation, world)
    return result.value


differs = all_reduce(drawn, most) != -all_reduce(-drawn, most)
value = 1.0
for number in range(rounds):
    names = {f"name {i}" for i in range(number, number + 10)}
    value = all_reduce(value * (rank.value + 1) % 17 + sum(map(len, names)), add)
    if rank.value == 0:
        print(f"round {number}: {value!r}", flush=True)
print(f"rank {rank.value}: other random numbers differ: {differs}", flush=True)
mpi.MPI_Finalize()
