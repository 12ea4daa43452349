# late.py LIBMPI ROUNDS PAUSE: an interpreter that opens the MPI library while
# it runs, by its path or name, and adds numbers up with it.
import ctypes
import sys
import time

library, rounds, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
mpi = ctypes.CDLL(library, ctypes.RTLD_GLOBAL)


def handle(name):
    return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name)))


world, double, add = map(handle, ("ompi_mpi_comm_world", "ompi_mpi_double", "ompi_mpi_op_sum"))
mpi.MPI_Init(None, None)
rank, size = ctypes.c_int(), ctypes.c_int()
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mpi.MPI_Comm_size(world, ctypes.byref(size))
seen = []
value = ctypes.c_double(1)
for number in range(rounds):
    mine = ctypes.c_double(value.value * (rank.value + 1) % 17 + number)
    mpi.MPI_Allreduce(ctypes.byref(mine), ctypes.byref(value), 1, double, add, world)
    seen.append(value.value)
    if rank.value == 0:
        print(f"round {number}: {value.value!r}", flush=True)
    time.sleep(pause)
print(f"rank {rank.value} of {size.value}: {sum(seen)!r}", flush=True)
mpi.MPI_Finalize()
