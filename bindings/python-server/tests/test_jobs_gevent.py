"""A worker of jobs in a greenlet lets the other greenlets of its thread run."""

from __future__ import annotations

import pytest
from patience import ends_silently
from tested import EXAMPLE

pytest.importorskip("gevent")

PROGRAM = """
{patch}
{example}
import gevent, redis
from punctual.jobs import Queue, Worker

def handle(job):
    seen.append(job.payload)
    worker.stop()

seen = []
server = package.Server().start()
client = redis.Redis(port=server.port, decode_responses=True)
worker = Worker(client, ["mails"], handle)
running = gevent.spawn(worker.run)
ticks = 0
while client.client_list() and not any(c["cmd"] == "job|take" for c in client.client_list()):
    gevent.sleep(0.001)
    ticks += 1
Queue(client, "mails").add("welcome")
gevent.joinall([running], timeout=30, raise_error=True)
assert running.dead and seen == ["welcome"], (running, seen)
client.close()
server.stop()
"""


@pytest.mark.parametrize("patch", ["", "from gevent import monkey; monkey.patch_all()"])
def test_a_worker_yields_while_it_waits(patch: str) -> None:
    ends_silently(PROGRAM.format(patch=patch, example=EXAMPLE), "-W", "ignore", timeout=60)
