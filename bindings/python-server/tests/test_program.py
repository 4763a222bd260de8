"""`python -m punctual_server`."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import punctual_server
import pytest
import redis
from punctual_server.__main__ import main
from redis.backoff import NoBackoff
from redis.retry import Retry


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=30).close()
    except ConnectionRefusedError:
        return False
    return True


def serve(folder: Path, *arguments: str) -> tuple[subprocess.Popen[str], redis.Redis]:
    """Starts a server process. Returns it with a client when it accepts connections."""
    port = free_port()
    command = [sys.executable, "-m", "punctual_server", "serve", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--bind", "127.0.0.1", "--dir", str(folder), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    end = time.monotonic() + 30
    while not listens(port):
        assert process.poll() is None, process.stdout and process.stdout.read()
        assert time.monotonic() < end
        time.sleep(0.01)
    # A client's automatic retry would wait for seconds.
    retry = Retry(NoBackoff(), 0)
    return process, redis.Redis(port=port, decode_responses=True, retry=retry)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    process, client = serve(tmp_path, "--save", "900 1", "--clock", "virtual")
    client.set("key", "value")
    assert client.config_get("clock") == {"clock": "virtual"}
    client.close()
    process.send_signal(number)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0, output
    assert f"Received {number.name} scheduling shutdown..." in output
    assert "Traceback" not in output
    assert output.rstrip().endswith("Punctual is now ready to exit, bye bye...")
    # With save points, the server writes a snapshot before it exits.
    assert (tmp_path / "dump.rdb").stat().st_size > 0


def test_shutdown_ends_it(tmp_path: Path) -> None:
    process, client = serve(tmp_path)
    client.shutdown(nosave=True)
    client.close()
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0, output


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "punctual_server", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_wrong_options() -> None:
    ended = run("serve", "--prot", "1")
    assert ended.returncode == 1
    assert "*** FATAL CONFIG FILE ERROR" in ended.stderr
    assert "did you mean 'port'?" in ended.stderr


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, pattern in [
        (["--version"], re.escape(f"punctual_server {punctual_server.__version__}\n")),
        (["--help"], r"(?s)usage: python -m punctual_server .*serve "),
    ]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0
        assert re.match(pattern, capsys.readouterr().out)
    assert "--clock virtual" in run("serve", "--help").stdout


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["bench"]])
def test_wrong_commands(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: python -m punctual_server" in capsys.readouterr().err
