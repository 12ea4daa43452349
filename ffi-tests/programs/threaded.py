# threaded.py STEPS PAUSE: threads that live for one call of MPI each, and append to
# files.
import sys
import threading
import time

from mpi4py import MPI

world = MPI.COMM_WORLD
total = world.rank


def add(step):
    global total
    total = world.allreduce((total * 31 + step) % 1000003)
    with open(f"log-{world.rank}-{step % 3}", "a") as log:
        print(total, file=log)


for step in range(1, int(sys.argv[1]) + 1):
    total = world.allreduce((total * 17 + world.rank) % 1000003)
    thread = threading.Thread(target=add, args=(step,))
    thread.start()
    thread.join()
    if world.rank == 0:
        print(step, total, flush=True)
    time.sleep(float(sys.argv[2]))

logs = [open(f"log-{world.rank}-{which}").read() for which in range(3)]
logs = world.gather([sum(map(int, log.split())) for log in logs])
if world.rank == 0:
    print(logs, flush=True)
