"""Queues of jobs and their workers, over a redis-py connection to a Punctual server.

A job is leased to one worker at a time. It is tried again if its function raises an exception or if
its worker dies; docs/jobs.md has the rules. All times are in seconds.

    import redis
    from punctual.jobs import Queue, Worker

    Queue(redis.Redis(), "mails").add("welcome:17", delay=60)

    def send(job):
        print(job.payload)

    Worker(redis.Redis(), ["mails"], send).run()  # until SIGTERM or SIGINT

`AsyncWorker` is the same for `redis.asyncio` and functions that are coroutines.

A worker uses two connections of the client. On one it takes jobs, as many as it has free slots (a
slot is a thread or a task that runs one job at a time). On the other it acknowledges jobs that have
ended and renews the leases of running jobs, several jobs in one command.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import signal
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence

__all__ = ["AsyncWorker", "Job", "Queue", "RetryError", "Worker"]

Text = Union[str, bytes]
#: The words of a command, or a part of them.
Words = list[Any]

#: Longest wait of one JOB TAKE, after which a worker checks whether it was stopped.
_BLOCK_MS = 1000
#: Pause in seconds after the connection was lost.
_PAUSE = 1.0
#: Maximum time in seconds for the last acknowledgements of a worker that stops.
_REPORT_TIMEOUT = 5.0
#: The server's limit of COUNT in JOB TAKE.
_COUNT_MAX = 10_000
_STOPPED = "the worker stopped"
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True)
class Job:
    """A job that a worker has taken.

    `queue`, `id` and `payload` are strings if the client decodes responses, otherwise bytes.
    `token` identifies this lease, `attempt` counts from 1, and `due` is in Unix seconds.
    """

    queue: Text
    id: Text
    token: int
    attempt: int
    due: float
    payload: Text


class RetryError(Exception):
    """Raised by a job's function to have the job tried again.

    `delay` is the time in seconds until the next attempt. Without it, the job's backoff applies.
    """

    def __init__(self, message: str = "", *, delay: float | None = None) -> None:
        super().__init__(message)
        self.delay = delay


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


class Queue:
    """Adds jobs to a queue. With a client of `redis.asyncio`, await the result of `add`."""

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
        """Add a job and return its ID, or `None` if a job with this ID exists.

        The arguments are those of JOB ADD, with times in seconds; see docs/jobs.md.
        """
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


class _Commands:
    """Builds the commands of a worker and parses their replies."""

    def __init__(self, queues: Sequence[Text], lease: float, slots: int) -> None:
        if isinstance(queues, (str, bytes)) or not queues:
            raise ValueError("queues must be a sequence of one or more names")
        if slots < 1:
            raise ValueError("a worker must run at least one job at a time")
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
        # A text that cannot be encoded must not fail the pipeline with the other jobs' commands.
        text = f"{type(error).__name__}: {error}".encode(errors="replace")
        return [*words, "ERROR", text]

    @staticmethod
    def endings(ended: Collection[_Ending]) -> list[Words]:
        """Return the commands for jobs that have ended: JOB ACK if done, JOB NACK if failed."""
        commands = _each_queue("ACK", (job for job, failure in ended if failure is None))
        for job, failure in ended:
            if failure is not None:
                commands.append(["JOB", "NACK", job.queue, job.id, job.token, *failure])
        return commands

    def renewals(self, running: Collection[Job]) -> list[Words]:
        return [[*words, *self._lease] for words in _each_queue("TOUCH", running)]


#: A job that has ended: `None` if it is done, otherwise the last words of its JOB NACK.
_Ending = tuple[Job, Union[Words, None]]


def _each_queue(verb: str, jobs: Iterable[Job]) -> list[Words]:
    """Return one command `JOB verb` for each queue, with all of the queue's jobs."""
    commands: dict[Text, Words] = {}
    for job in jobs:
        words = commands.setdefault(job.queue, ["JOB", verb, job.queue])
        words += [job.id, job.token]
    return list(commands.values())


def _transient_errors() -> tuple[type[BaseException], ...]:
    """Return the errors after which the same command may succeed later or on a new connection."""
    from redis import exceptions

    # ReadOnlyError: the server has become a replica. Its host name may lead to the new primary.
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
    """Raise the first transient error. Ignore other errors: the leases of their jobs expire."""
    transient = _transient_errors()
    for reply in replies:
        if isinstance(reply, transient):
            raise reply


class Worker:
    """Calls `handle(job)` for each job of the queues, in `threads` threads.

    The queues are served in the order of `queues`. While a job runs, the worker renews its lease of
    `lease` seconds, so the lease expires only if the process dies or cannot reach the server. If
    `handle` raises an exception, the attempt has failed. A worker that stops waits up to `grace`
    seconds for the running jobs; the attempts of jobs that have not ended by then have failed.
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
        self._commands = _Commands(queues, lease, threads)
        self._handle = handle
        self._lease = lease
        self._threads = threads
        self._grace = grace
        self._stopped = False
        self._running: set[Job] = set()
        #: Jobs for the threads; each `None` ends a thread.
        self._todo: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        #: Jobs to acknowledge; `None` ends the thread that acknowledges them.
        self._ended: queue.SimpleQueue[_Ending | None] = queue.SimpleQueue()
        #: Numbers of slots that have become free. `stop`, also in a signal handler, puts 0.
        self._freed: queue.SimpleQueue[int] = queue.SimpleQueue()

    def stop(self) -> None:
        """Make `run` return when the running jobs are done, or a few seconds after `grace`."""
        self._stopped = True
        self._freed.put(0)

    def run(self) -> None:
        """Take and run jobs until `stop` is called. In the main thread, SIGTERM and SIGINT call it.

        In a thread that runs gevent's hub, the other greenlets run meanwhile.

        Raises the server's error if it refuses JOB TAKE. Reconnects if the connection is lost.
        """
        with self._signals():
            if "gevent" in sys.modules:
                from punctual import _greenlets

                _greenlets.offload(self._run)
            else:
                self._run()

    def _run(self) -> None:
        runners = [threading.Thread(target=self._serve, daemon=True) for _ in range(self._threads)]
        reporter = threading.Thread(target=self._report, daemon=True)
        for thread in (*runners, reporter):
            thread.start()
        try:
            self._take()
        finally:
            self._finish(runners, reporter)

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
        transient, free = _transient_errors(), self._threads
        while not self._stopped:
            if free == 0 or not self._freed.empty():
                free += self._freed.get()
                continue
            try:
                reply = self._client.execute_command(*self._commands.take(free))
            except transient:
                with contextlib.suppress(queue.Empty):
                    free += self._freed.get(timeout=_PAUSE)
                continue
            taken = self._commands.jobs(reply)
            for job in taken:
                self._running.add(job)
                self._todo.put(job)
            free -= len(taken)

    def _serve(self) -> None:
        while (job := self._todo.get()) is not None:
            failure = None
            try:
                self._handle(job)
            except BaseException as error:  # including SystemExit, which would end the thread
                failure = self._commands.failure(error)
            self._end(job, failure)

    def _end(self, job: Job, failure: Words | None) -> None:
        # `_finish` may have ended the job before, when the grace time was over.
        with contextlib.suppress(KeyError):
            self._running.remove(job)
            self._ended.put((job, failure))

    def _report(self) -> None:
        """Acknowledge jobs that have ended, and renew the leases of running jobs."""
        transient, third = _transient_errors(), self._lease / 3
        renewal, going = time.monotonic() + third, True
        while going:
            ended: list[_Ending] = []
            with contextlib.suppress(queue.Empty):
                ending = self._ended.get(timeout=max(0, renewal - time.monotonic()))
                while going := ending is not None:
                    ended.append(ending)
                    ending = self._ended.get_nowait()
            if ended:
                self._send_endings(self._commands.endings(ended))
                self._freed.put(len(ended))
            if time.monotonic() >= renewal:
                renewal = time.monotonic() + third
                with contextlib.suppress(*transient):
                    self._send(self._commands.renewals(self._running.copy()))

    def _send_endings(self, commands: Sequence[Words]) -> None:
        """Send the commands, again after transient errors, until the leases expire.

        Sending a command twice is harmless.
        """
        transient, end = _transient_errors(), time.monotonic() + self._lease
        while commands and time.monotonic() < end:
            try:
                self._send(commands)
                commands = ()
            except transient:  # noqa: PERF203
                time.sleep(_PAUSE)

    def _send(self, commands: Sequence[Words]) -> None:
        if commands:
            _check(_pipeline(self._client, commands).execute(raise_on_error=False))

    def _finish(self, runners: Sequence[threading.Thread], reporter: threading.Thread) -> None:
        end = time.monotonic() + self._grace
        for _ in runners:
            self._todo.put(None)
        for thread in runners:
            thread.join(max(0, end - time.monotonic()))
        for job in self._running.copy():
            self._end(job, ["ERROR", _STOPPED])
        self._ended.put(None)
        reporter.join(max(0, end - time.monotonic()) + _REPORT_TIMEOUT)


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
        self._commands = _Commands(queues, lease, tasks)
        self._handle = handle
        self._lease = lease
        #: Number of free slots.
        self._free = tasks
        self._grace = grace
        self._stopped = False
        #: Set when a slot becomes free, and by `stop`.
        self._changed: asyncio.Event | None = None
        self._running: dict[Job, asyncio.Task[None]] = {}
        self._ended: list[_Ending] = []
        self._reporting: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """Make `run` return when the running jobs are done, or a few seconds after `grace`."""
        self._stopped = True
        if self._changed is not None:
            self._changed.set()

    async def run(self) -> None:
        """Take and run jobs until `stop` is called; see `Worker.run`.

        A cancellation of `run` cancels the running jobs, whose attempts have failed then.
        """
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
        transient = _transient_errors()
        while not self._stopped:
            if self._free == 0:
                changed.clear()
                await changed.wait()
                continue
            try:
                reply = await self._client.execute_command(*self._commands.take(self._free))
            except transient:
                await asyncio.sleep(_PAUSE)
                continue
            for job in self._commands.jobs(reply):
                self._free -= 1
                self._running[job] = asyncio.ensure_future(self._serve(job))

    async def _serve(self, job: Job) -> None:
        failure = None
        try:
            await self._handle(job)
        except asyncio.CancelledError:
            failure = ["ERROR", _STOPPED]
        except Exception as error:
            failure = self._commands.failure(error)
        del self._running[job]
        self._ended.append((job, failure))
        if self._reporting is None:
            self._reporting = asyncio.ensure_future(self._report())

    async def _report(self) -> None:
        """Acknowledge jobs that have ended, all of them in one pipeline."""
        while self._ended:
            ended, self._ended = self._ended, []
            await self._send_endings(self._commands.endings(ended))
            self._free += len(ended)
            if self._changed is not None:
                self._changed.set()
        self._reporting = None

    async def _send_endings(self, commands: Sequence[Words]) -> None:
        """Send the commands like `Worker._send_endings`."""
        transient, end = _transient_errors(), time.monotonic() + self._lease
        while commands and time.monotonic() < end:
            try:
                await self._send(commands)
                commands = ()
            except transient:  # noqa: PERF203
                await asyncio.sleep(_PAUSE)

    async def _send(self, commands: Sequence[Words]) -> None:
        if commands:
            _check(await _pipeline(self._client, commands).execute(raise_on_error=False))

    async def _renew(self) -> None:
        transient = _transient_errors()
        while True:
            await asyncio.sleep(self._lease / 3)
            with contextlib.suppress(*transient):
                await self._send(self._commands.renewals(self._running))

    async def _finish(self, grace: float) -> None:
        end = time.monotonic() + grace
        if self._running:
            await asyncio.wait(self._running.values(), timeout=grace)
        late = list(self._running.values())
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=_REPORT_TIMEOUT)
        if self._reporting is not None:
            timeout = max(0, end - time.monotonic()) + _REPORT_TIMEOUT
            await asyncio.wait([self._reporting], timeout=timeout)
