"""Queues of jobs and their workers, over a redis-py connection to a Punctual server.

A job is leased to one worker at a time. It is tried again if its function raises, or if the worker
goes away; see docs/jobs.md for the rules. All times are in seconds.

    import redis
    from punctual.jobs import Queue, Worker

    Queue(redis.Redis(), "mails").add("welcome:17", delay=60)

    def send(job):
        print(job.payload)

    Worker(redis.Redis(), ["mails"], send).run()  # until SIGTERM or SIGINT

`AsyncWorker` is the same for `redis.asyncio` and functions that are coroutines.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

__all__ = ["AsyncWorker", "Job", "Queue", "RetryError", "Worker"]

Text = Union[str, bytes]

#: Longest wait for a job, after which a worker looks whether it was stopped.
_BLOCK_MS = 1000
#: Pause after the connection was lost.
_PAUSE = 1.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True)
class Job:
    """A job that a worker has. Its texts are strings if the connection decodes responses."""

    queue: Text
    id: Text
    token: int
    attempt: int
    due: float
    payload: Text


class RetryError(Exception):
    """Raised by a job's function: try again after this time, or after the job's own backoff."""

    def __init__(self, message: str = "", *, delay: float | None = None) -> None:
        super().__init__(message)
        self.delay = delay


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


class Queue:
    """Adds jobs to a queue. With a client of `redis.asyncio`, await what `add` returns."""

    def __init__(self, client: Any, name: Text) -> None:
        self.client = client
        self.name = name

    def add(
        self,
        payload: Text,
        *,
        id: Text | None = None,
        unique: float | None = None,
        delay: float | None = None,
        at: float | None = None,
        priority: int | None = None,
        lease: float | None = None,
        retry: int | None = None,
        backoff: tuple[float, float] | None = None,
        jitter: int | None = None,
        ttl: float | None = None,
        dead: Text | None = None,
        keep: float | None = None,
    ) -> Any:
        """Add a job, and return its ID, or `None` if the ID is taken."""
        words: list[Any] = []
        for word, text in (("ID", id), ("DEAD", dead)):
            words += [word, text] if text is not None else []
        for word, number in (("PRIORITY", priority), ("RETRY", retry)):
            words += [word, number] if number is not None else []
        times = (
            ("UNIQUE", unique),
            ("DELAY", delay),
            ("AT", at),
            ("LEASE", lease),
            ("TTL", ttl),
            ("KEEP", keep),
        )
        for word, seconds in times:
            words += [word, _ms(seconds)] if seconds is not None else []
        if backoff is not None:
            words += ["BACKOFF", _ms(backoff[0]), _ms(backoff[1])]
        words += ["JITTER", jitter] if jitter is not None else []
        return self.client.execute_command("JOB", "ADD", self.name, payload, *words)


class _Words:
    """The commands of a worker."""

    def __init__(self, queues: Sequence[Text], lease: float | None) -> None:
        if isinstance(queues, (str, bytes)) or not queues:
            raise ValueError("queues is a sequence of one or more names")
        lease_words = [] if lease is None else ["LEASE", _ms(lease)]
        self.take = ["JOB", "TAKE", *queues, "BLOCK", _BLOCK_MS, *lease_words]
        self.lease_words = lease_words

    @staticmethod
    def job(reply: Any) -> Job | None:
        if not reply:
            return None
        queue, name, token, attempt, due, payload = reply[0]
        return Job(queue, name, token, attempt, due / 1000, payload)

    @staticmethod
    def done(job: Job) -> list[Any]:
        return ["JOB", "ACK", job.queue, job.id, job.token]

    @staticmethod
    def failed(job: Job, error: BaseException) -> list[Any]:
        words = ["JOB", "NACK", job.queue, job.id, job.token]
        if isinstance(error, RetryError) and error.delay is not None:
            words += ["DELAY", _ms(error.delay)]
        return [*words, "ERROR", f"{type(error).__name__}: {error}"]

    def touch(self, job: Job) -> list[Any]:
        return ["JOB", "TOUCH", job.queue, job.id, job.token, *self.lease_words]


def _lost() -> tuple[type[BaseException], ...]:
    """Return the errors of a connection that may come back."""
    from redis import exceptions

    return (exceptions.ConnectionError, exceptions.TimeoutError)


class Worker:
    """Calls `handle(job)` for each job of the queues, in `threads` threads.

    Queues that are named first come first. While a job runs, its lease of `lease` seconds is
    renewed, so it ends only with the process. An exception gives the job up.
    """

    def __init__(
        self,
        client: Any,
        queues: Sequence[Text],
        handle: Callable[[Job], object],
        *,
        lease: float = 30,
        threads: int = 1,
    ) -> None:
        self._client = client
        self._words = _Words(queues, lease)
        self._handle = handle
        self._lease = lease
        self._threads = threads
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Lets `run` return as soon as the jobs that run are done."""
        self._stopped.set()

    def run(self) -> None:
        """Works until `stop`. In the main thread, SIGTERM and SIGINT call that."""
        with self._signals():
            others = [threading.Thread(target=self._loop) for _ in range(self._threads - 1)]
            for thread in others:
                thread.start()
            try:
                self._loop()
            finally:
                self.stop()
                for thread in others:
                    thread.join()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, lambda *_: self.stop()) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _loop(self) -> None:
        lost = _lost()
        while not self._stopped.is_set():
            try:
                job = self._words.job(self._client.execute_command(*self._words.take))
                if job is not None:
                    self._work(job)
            except lost:  # noqa: PERF203
                self._stopped.wait(_PAUSE)

    def _work(self, job: Job) -> None:
        ended = threading.Event()
        renewing = threading.Thread(target=self._renew, args=(job, ended), daemon=True)
        renewing.start()
        try:
            self._handle(job)
            words = self._words.done(job)
        except Exception as error:
            words = self._words.failed(job, error)
        finally:
            ended.set()
            renewing.join()
        self._client.execute_command(*words)

    def _renew(self, job: Job, ended: threading.Event) -> None:
        lost = _lost()
        while not ended.wait(self._lease / 3):
            with contextlib.suppress(*lost):
                self._client.execute_command(*self._words.touch(job))


class AsyncWorker:
    """Awaits `handle(job)` for each job of the queues, `tasks` at a time; see `Worker`."""

    def __init__(
        self,
        client: Any,
        queues: Sequence[Text],
        handle: Callable[[Job], Awaitable[object]],
        *,
        lease: float = 30,
        tasks: int = 1,
    ) -> None:
        self._client = client
        self._words = _Words(queues, lease)
        self._handle = handle
        self._lease = lease
        self._tasks = tasks
        self._stopped = False

    def stop(self) -> None:
        """Lets `run` return as soon as the jobs that run are done."""
        self._stopped = True

    async def run(self) -> None:
        """Works until `stop`. In the main thread, SIGTERM and SIGINT call that."""
        loop = asyncio.get_running_loop()
        main = threading.current_thread() is threading.main_thread()
        numbers = _SIGNALS if main else ()
        for number in numbers:
            loop.add_signal_handler(number, self.stop)
        try:
            await asyncio.gather(*(self._loop() for _ in range(self._tasks)))
        finally:
            self.stop()
            for number in numbers:
                loop.remove_signal_handler(number)

    async def _loop(self) -> None:
        lost = _lost()
        while not self._stopped:
            try:
                job = self._words.job(await self._client.execute_command(*self._words.take))
                if job is not None:
                    await self._work(job)
            except lost:  # noqa: PERF203
                await asyncio.sleep(_PAUSE)

    async def _work(self, job: Job) -> None:
        renewing = asyncio.ensure_future(self._renew(job))
        try:
            await self._handle(job)
            words = self._words.done(job)
        except Exception as error:
            words = self._words.failed(job, error)
        finally:
            renewing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await renewing
        await self._client.execute_command(*words)

    async def _renew(self, job: Job) -> None:
        lost = _lost()
        while True:
            await asyncio.sleep(self._lease / 3)
            with contextlib.suppress(*lost):
                await self._client.execute_command(*self._words.touch(job))
