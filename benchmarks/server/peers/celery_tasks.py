"""Celery in `punctual-bench jobs`.

`work PORT OUT` runs jobs, and appends the lateness of each job in microseconds to the file OUT.
`produce PORT COUNT FIRST SPREAD` adds COUNT jobs. Their due times begin at FIRST (Unix time in
milliseconds) and are spread over SPREAD milliseconds. With FIRST 0, the jobs are due at once.
"""

import os
import sys
import time
from datetime import datetime, timezone

from celery import Celery

mode, port, *rest = sys.argv[1:] if __name__ == "__main__" else os.environ["PEER"].split()
app = Celery("celery_tasks", broker=f"redis://127.0.0.1:{port}/0")
# The other peers store no results.
app.conf.update(task_ignore_result=True, worker_hijack_root_logger=False)
out = os.open(rest[0], os.O_APPEND | os.O_CREAT | os.O_WRONLY) if mode == "work" else None


@app.task(name="job")
def job(due, text):
    late = max(0, round(time.time() * 1e6) - due * 1000)
    os.write(out, b"%d\n" % late)


def produce(count, first, spread):
    with app.producer_pool.acquire(block=True) as producer:
        for index in range(count):
            # The order of the due times differs from the order of addition; 7,919 is a prime.
            later = index * 7919 % count * spread // count
            due = first + later if first else round(time.time() * 1000)
            when = {"eta": datetime.fromtimestamp(due / 1000, timezone.utc)} if first else {}
            job.apply_async((due, " " * 70), producer=producer, **when)


if __name__ == "__main__" and mode == "work":
    os.environ["PEER"] = " ".join(sys.argv[1:])
    folder = os.path.dirname(os.path.abspath(__file__))
    # Celery's default pool: a process for each core.
    words = ["-m", "celery", "--workdir", folder, "-A", "celery_tasks", "worker", "-l", "ERROR"]
    os.execv(sys.executable, [sys.executable, *words])
elif __name__ == "__main__":
    produce(*map(int, rest))
