"""Runs the Python programs of docs/jobs.md: the Celery task, if Celery is installed, and the job.

Arguments: the port of a server with a virtual clock, the path of docs/jobs.md, the path of the
module `punctual.jobs`, and a folder in which Celery may be installed.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import redis

PATIENCE = 60
# A module `mail` whose first mail fails.
MAIL = """
import os

def send_mail(user):
    with open("mails", "a") as file:
        file.write(user + " ")
    if not os.path.exists("tried"):
        open("tried", "w").close()
        raise ConnectionError("no answer")
"""


def until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


port, page, module, packages = sys.argv[1:]
before, after = re.findall(r"^```python\n(.*?)^```", Path(page).read_text(), re.M | re.S)
client = redis.Redis(port=int(port), decode_responses=True)


def count(name):
    info = client.execute_command("JOB", "INFO", "celery")
    # INFO is a map in RESP3, and a list of names and values in RESP2.
    return info[name] if isinstance(info, dict) else info[info.index(name) + 1]


def start(folder, program):
    (folder / "mail.py").write_text(MAIL)
    (folder / "program.py").write_text(program)
    (folder / "punctual").mkdir()
    (folder / "punctual" / "__init__.py").touch()
    (folder / "punctual" / "jobs.py").symlink_to(Path(module).resolve())
    path = os.pathsep.join((str(folder), str(Path(packages).resolve())))
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen([sys.executable, "program.py"], cwd=folder, env=environment)


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    # With this setting, Celery runs the task and its retries without a worker.
    eager = before.replace("remind.apply", "app.conf.task_always_eager = True\nremind.apply")
    assert eager != before
    sys.path.append(packages)
    try:
        import celery  # noqa: F401
    except ImportError:
        print("NOT RUN: the task of Celery, which scripts/setup job-peers installs")
    else:
        assert start(folder, eager).wait(PATIENCE) == 0
        assert (folder / "mails").read_text() == "ann ann "

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    assert "port=6379" in after
    worker = start(folder, after.replace("port=6379", f"port={port}"))
    try:
        until(lambda: client.exists("celery"))
        client.execute_command("CLOCK", "ADVANCE", 3_599_999)
        assert not (folder / "mails").exists()
        client.execute_command("CLOCK", "ADVANCE", 1)
        until(lambda: (folder / "mails").exists())
        until(lambda: count("delayed") == 1)
        client.execute_command("CLOCK", "ADVANCE", 1000)
        until(lambda: count("total-done") == 1)
        assert (folder / "mails").read_text() == "ann ann "
    finally:
        worker.send_signal(signal.SIGTERM)
    # The worker waits in JOB TAKE, whose timeout follows the server's virtual clock.
    until(lambda: client.execute_command("CLOCK", "ADVANCE", 1000) and worker.poll() is not None)
    assert worker.returncode == 0
print("ok")
