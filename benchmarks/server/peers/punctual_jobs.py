"""The Python client in `punctual-bench jobs`.

`work PORT OUT` runs jobs, and appends the lateness of each job in microseconds to the file OUT.
`produce PORT COUNT FIRST SPREAD` adds COUNT jobs. Their due times begin at FIRST (Unix time in
milliseconds) and are spread over SPREAD milliseconds. With FIRST 0, the jobs are due at once.
"""

import asyncio
import os
import sys
import time

import redis
import redis.asyncio

# The module bindings/python/python/punctual/jobs.py, which needs no other module of its package.
from jobs import AsyncWorker, Queue

TASKS = 10
PIPELINE = 500


def work(port, out):
    file = os.open(out, os.O_APPEND | os.O_CREAT | os.O_WRONLY)

    async def handle(job):
        late = max(0, round(time.time() * 1e6) - int(job.payload[:13]) * 1000)
        os.write(file, b"%d\n" % late)

    async def main():
        client = redis.asyncio.Redis(port=int(port))
        await AsyncWorker(client, ["bench"], handle, tasks=TASKS).run()

    asyncio.run(main())


def produce(port, count, first, spread):
    client = redis.Redis(port=port)
    for begin in range(0, count, PIPELINE):
        pipe = client.pipeline(transaction=False)
        queue = Queue(pipe, "bench")
        for index in range(begin, min(count, begin + PIPELINE)):
            # The order of the due times differs from the order of addition; 7,919 is a prime.
            later = index * 7919 % count * spread // count
            due = first + later if first else round(time.time() * 1000)
            queue.add(f"{due} {'':86}", at=due / 1000 if first else None)
        pipe.execute()


if sys.argv[1] == "work":
    work(*sys.argv[2:])
else:
    produce(*map(int, sys.argv[2:]))
