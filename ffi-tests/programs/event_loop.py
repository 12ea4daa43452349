"""event_loop.py STEPS: tasks of an asyncio event loop between collectives.

An event loop wakes itself by a socket pair, and waits by epoll.
"""
import asyncio
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
steps = int(sys.argv[1])


async def square(queue, results):
    while True:
        number = await queue.get()
        await asyncio.sleep(0.001)
        results.append(number * number)
        queue.task_done()


async def main():
    queue, results, total = asyncio.Queue(), [], 0
    loop = asyncio.get_running_loop()
    tasks = [asyncio.create_task(square(queue, results)) for _ in range(3)]
    for step in range(steps):
        for number in range(4):
            await queue.put(step + number + comm.rank)
        await queue.join()
        woken = asyncio.Event()
        loop.call_soon_threadsafe(woken.set)
        await woken.wait()
        total = (total * 31 + comm.allreduce(sum(results))) % 1000003
        if comm.rank == 0:
            print(f"step {step}: {total}", flush=True)
    print(f"[{comm.rank}] {total}")
    for task in tasks:
        task.cancel()


asyncio.run(main())
