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

A worker asks for as many jobs as it has room for on one connection, and tells the server of jobs
that have ended, and renews leases, on another one: of as many jobs at once as there are.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import signal
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence

__all__ = ["AsyncWorker", "Job", "Queue", "RetryError", "Worker"]

Text = Union[str, bytes]
#: A command, or words of one.
Words = list[Any]

#: Longest wait for a job, after which a worker looks whether it was stopped.
_BLOCK_MS = 1000
#: Pause after the connection was lost.
_PAUSE = 1.0
#: Longest time in which a worker that has waited for its jobs tells the server of them.
_GIVE_UP = 5.0
#: The server's limit of jobs of one JOB TAKE.
_COUNT_MAX = 10_000
_STOPPED = "the worker stopped"
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
        words: Words = []
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

    def __init__(self, queues: Sequence[Text], lease: float, room: int) -> None:
        if isinstance(queues, (str, bytes)) or not queues:
            raise ValueError("queues is a sequence of one or more names")
        if room < 1:
            raise ValueError("a worker runs at least one job")
        self._queues = queues
        self._lease: Words = ["LEASE", _ms(lease)]

    def take(self, count: int) -> Words:
        count = min(count, _COUNT_MAX)
        return ["JOB", "TAKE", *self._queues, "COUNT", count, "BLOCK", _BLOCK_MS, *self._lease]

    @staticmethod
    def jobs(reply: Any) -> list[Job]:
        rows = reply or ()
        return [
            Job(name, id, token, attempt, due / 1000, payload)
            for name, id, token, attempt, due, payload in rows
        ]

    @staticmethod
    def failure(error: BaseException) -> Words:
        words: Words = []
        if isinstance(error, RetryError) and error.delay is not None:
            words += ["DELAY", _ms(error.delay)]
        # What cannot be encoded must not stop the others.
        text = f"{type(error).__name__}: {error}".encode(errors="replace")
        return [*words, "ERROR", text]

    @staticmethod
    def endings(ended: Collection[_Ending]) -> list[Words]:
        """Return the commands for jobs that are done, and for those that are given up."""
        commands = _each_queue("ACK", (job for job, failure in ended if failure is None))
        for job, failure in ended:
            if failure is not None:
                commands.append(["JOB", "NACK", job.queue, job.id, job.token, *failure])
        return commands

    def renewals(self, running: Collection[Job]) -> list[Words]:
        return [[*words, *self._lease] for words in _each_queue("TOUCH", running)]


#: A job that has ended, and `None` or the last words of its NACK.
_Ending = tuple[Job, Union[Words, None]]


def _each_queue(verb: str, jobs: Iterable[Job]) -> list[Words]:
    """Return a command for the jobs of each queue."""
    commands: dict[Text, Words] = {}
    for job in jobs:
        words = commands.setdefault(job.queue, ["JOB", verb, job.queue])
        words += [job.id, job.token]
    return list(commands.values())


def _lost() -> tuple[type[BaseException], ...]:
    """Return the errors after which a command may succeed on another connection, or later."""
    from redis import exceptions

    # READONLY: the server has become a replica, and its name may lead to the new primary.
    names = ("ReadOnlyError", "MasterDownError", "TryAgainError", "ClusterDownError")
    known = (getattr(exceptions, name, None) for name in names)
    return (
        exceptions.ConnectionError,
        exceptions.TimeoutError,
        *(error for error in known if error is not None),
    )


def _pipeline(client: Any, commands: Sequence[Words]) -> Any:
    pipe = client.pipeline(transaction=False)
    for words in commands:
        pipe.execute_command(*words)
    return pipe


def _check(replies: Sequence[Any]) -> None:
    """Raise the first error that may pass. After others the leases of jobs end by themselves."""
    lost = _lost()
    for reply in replies:
        if isinstance(reply, lost):
            raise reply


class Worker:
    """Calls `handle(job)` for each job of the queues, in `threads` threads.

    Queues that are named first come first. While a job runs, its lease of `lease` seconds is
    renewed, so it ends only with the process. An exception gives the job up. A worker that stops
    waits up to `grace` seconds for the jobs that run, and gives up those that have not ended.
    """

    def __init__(
        self,
        client: Any,
        queues: Sequence[Text],
        handle: Callable[[Job], object],
        *,
        lease: float = 30,
        threads: int = 1,
        grace: float = 25,
    ) -> None:
        self._client = client
        self._words = _Words(queues, lease, threads)
        self._handle = handle
        self._lease = lease
        self._threads = threads
        self._grace = grace
        self._stopped = False
        self._running: set[Job] = set()
        #: Jobs for the threads; `None` ends one.
        self._todo: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        #: What the server is to know; `None` ends the telling.
        self._ended: queue.SimpleQueue[_Ending | None] = queue.SimpleQueue()
        #: Numbers of jobs for which there is room again. A signal's handler may put one.
        self._room: queue.SimpleQueue[int] = queue.SimpleQueue()

    def stop(self) -> None:
        """Lets `run` return as soon as the jobs that run are done."""
        self._stopped = True
        self._room.put(0)

    def run(self) -> None:
        """Works until `stop`. In the main thread, SIGTERM and SIGINT call that.

        Raises the error of a server that refuses JOB TAKE. A lost connection is made again.
        """
        crew = [threading.Thread(target=self._serve, daemon=True) for _ in range(self._threads)]
        teller = threading.Thread(target=self._tell, daemon=True)
        with self._signals():
            for thread in (*crew, teller):
                thread.start()
            try:
                self._take()
            finally:
                self._finish(crew, teller)

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

    def _take(self) -> None:
        lost, room = _lost(), self._threads
        while not self._stopped:
            if room == 0 or not self._room.empty():
                room += self._room.get()
                continue
            try:
                taken = self._words.jobs(self._client.execute_command(*self._words.take(room)))
            except lost:
                with contextlib.suppress(queue.Empty):
                    room += self._room.get(timeout=_PAUSE)
                continue
            for job in taken:
                self._running.add(job)
                self._todo.put(job)
            room -= len(taken)

    def _serve(self) -> None:
        while (job := self._todo.get()) is not None:
            failure = None
            try:
                self._handle(job)
            except BaseException as error:  # SystemExit too, which would end the thread
                failure = self._words.failure(error)
            self._end(job, failure)

    def _end(self, job: Job, failure: Words | None) -> None:
        # A job that was given up has ended before.
        with contextlib.suppress(KeyError):
            self._running.remove(job)
            self._ended.put((job, failure))

    def _tell(self) -> None:
        """Tells the server of jobs that have ended, and renews the leases of the others."""
        lost, third = _lost(), self._lease / 3
        renewal, going = time.monotonic() + third, True
        while going:
            ended: list[_Ending] = []
            with contextlib.suppress(queue.Empty):
                ending = self._ended.get(timeout=max(0, renewal - time.monotonic()))
                while going := ending is not None:
                    ended.append(ending)
                    ending = self._ended.get_nowait()
            if ended:
                self._send_endings(self._words.endings(ended))
                self._room.put(len(ended))
            if time.monotonic() >= renewal:
                renewal = time.monotonic() + third
                with contextlib.suppress(*lost):
                    self._send(self._words.renewals(self._running.copy()))

    def _send_endings(self, commands: Sequence[Words]) -> None:
        """Send commands until they arrive, for a lease at most: a second ACK is harmless."""
        lost, end = _lost(), time.monotonic() + self._lease
        while commands and time.monotonic() < end:
            try:
                self._send(commands)
                commands = ()
            except lost:  # noqa: PERF203
                time.sleep(_PAUSE)

    def _send(self, commands: Sequence[Words]) -> None:
        if commands:
            _check(_pipeline(self._client, commands).execute(raise_on_error=False))

    def _finish(self, crew: Sequence[threading.Thread], teller: threading.Thread) -> None:
        end = time.monotonic() + self._grace
        for _ in crew:
            self._todo.put(None)
        for thread in crew:
            thread.join(max(0, end - time.monotonic()))
        for job in self._running.copy():
            self._end(job, ["ERROR", _STOPPED])
        self._ended.put(None)
        teller.join(max(0, end - time.monotonic()) + _GIVE_UP)


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
        grace: float = 25,
    ) -> None:
        self._client = client
        self._words = _Words(queues, lease, tasks)
        self._handle = handle
        self._lease = lease
        self._room = tasks
        self._grace = grace
        self._stopped = False
        #: Set when there is more room, and by `stop`.
        self._changed: asyncio.Event | None = None
        self._running: dict[Job, asyncio.Task[None]] = {}
        self._ended: list[_Ending] = []
        self._telling: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """Lets `run` return as soon as the jobs that run are done."""
        self._stopped = True
        if self._changed is not None:
            self._changed.set()

    async def run(self) -> None:
        """Works until `stop`; see `Worker.run`. If it is cancelled, its jobs are given up."""
        loop = asyncio.get_running_loop()
        main = threading.current_thread() is threading.main_thread()
        numbers = _SIGNALS if main else ()
        for number in numbers:
            loop.add_signal_handler(number, self.stop)
        self._changed = asyncio.Event()
        renewing = asyncio.ensure_future(self._renew())
        grace = self._grace
        try:
            await self._take(self._changed)
        except asyncio.CancelledError:
            grace = 0
            raise
        finally:
            await self._finish(grace)
            renewing.cancel()
            for number in numbers:
                loop.remove_signal_handler(number)

    async def _take(self, changed: asyncio.Event) -> None:
        lost = _lost()
        while not self._stopped:
            if self._room == 0:
                changed.clear()
                await changed.wait()
                continue
            try:
                reply = await self._client.execute_command(*self._words.take(self._room))
            except lost:
                await asyncio.sleep(_PAUSE)
                continue
            for job in self._words.jobs(reply):
                self._room -= 1
                self._running[job] = asyncio.ensure_future(self._serve(job))

    async def _serve(self, job: Job) -> None:
        failure = None
        try:
            await self._handle(job)
        except asyncio.CancelledError:
            failure = ["ERROR", _STOPPED]
        except Exception as error:
            failure = self._words.failure(error)
        del self._running[job]
        self._ended.append((job, failure))
        if self._telling is None:
            self._telling = asyncio.ensure_future(self._tell())

    async def _tell(self) -> None:
        """Tells the server of jobs that have ended, as many as there are at a time."""
        while self._ended:
            ended, self._ended = self._ended, []
            await self._send_endings(self._words.endings(ended))
            self._room += len(ended)
            if self._changed is not None:
                self._changed.set()
        self._telling = None

    async def _send_endings(self, commands: Sequence[Words]) -> None:
        """Do the same as `Worker._send_endings`."""
        lost, end = _lost(), time.monotonic() + self._lease
        while commands and time.monotonic() < end:
            try:
                await self._send(commands)
                commands = ()
            except lost:  # noqa: PERF203
                await asyncio.sleep(_PAUSE)

    async def _send(self, commands: Sequence[Words]) -> None:
        if commands:
            _check(await _pipeline(self._client, commands).execute(raise_on_error=False))

    async def _renew(self) -> None:
        lost = _lost()
        while True:
            await asyncio.sleep(self._lease / 3)
            with contextlib.suppress(*lost):
                await self._send(self._words.renewals(self._running))

    async def _finish(self, grace: float) -> None:
        end = time.monotonic() + grace
        if self._running:
            await asyncio.wait(self._running.values(), timeout=grace)
        late = list(self._running.values())
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=_GIVE_UP)
        if self._telling is not None:
            await asyncio.wait([self._telling], timeout=max(0, end - time.monotonic()) + _GIVE_UP)
