"""loopback_server.py STEPS: an asyncio server and its client in each process, between
collectives.

The connection is open all the time. A line is in flight during the collectives, and a
second client connects for one step each.
"""
import asyncio
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
steps = int(sys.argv[1])


async def answer(reader, writer):
    while line := await reader.readline():
        writer.write(b"%d\n" % (int(line) ** 2))
        await writer.drain()
    writer.close()


async def ask(reader, writer, number):
    writer.write(b"%d\n" % number)
    return int(await reader.readline())


async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    kept = await asyncio.open_connection(*address)
    own = kept[1].get_extra_info("socket").getsockname()
    total = 0
    for step in range(steps):
        kept[1].write(b"%d\n" % (step + comm.rank))
        total = (total * 31 + comm.allreduce(step)) % 1000003
        total += int(await kept[0].readline())
        passing = await asyncio.open_connection(*address)
        total += await ask(*passing, step * 3)
        passing[1].close()
        await passing[1].wait_closed()
        total = (total * 31 + comm.allreduce(total)) % 1000003
        assert server.sockets[0].getsockname() == address
        assert kept[1].get_extra_info("socket").getsockname() == own
        if comm.rank == 0:
            print(f"step {step}: {total}", flush=True)
    print(f"[{comm.rank}] {total}")
    kept[1].close()
    server.close()


asyncio.run(main())
