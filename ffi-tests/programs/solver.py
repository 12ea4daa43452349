#!/usr/bin/env python3
# solver.py STEPS PAUSE: products and eigenvalues by a BLAS with its own threads, which
# exist before MPI_Init.
import os
import sys
import time

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
size = 96
generator = np.random.default_rng(world.rank)
matrix = generator.standard_normal((size, size))
threads = len(os.listdir("/proc/self/task"))
assert threads > 1, "the BLAS has no threads"
for step in range(1, int(sys.argv[1]) + 1):
    product = matrix @ matrix.T / size
    values, vectors = np.linalg.eigh(product)
    total = np.empty_like(values)
    world.Allreduce(values, total, op=MPI.SUM)
    # The addend keeps the matrix from becoming singular, and depends on all ranks.
    matrix = np.linalg.solve(product + np.diag(total), vectors) * size + generator.standard_normal((size, size))
    if world.rank == 0:
        print(step, total.tobytes()[:16].hex(), float(total.sum()).hex(), flush=True)
    time.sleep(float(sys.argv[2]))
print(world.rank, float(np.abs(matrix).sum()).hex(), float(np.linalg.det(matrix / size)).hex(), flush=True)
