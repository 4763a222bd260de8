"""Locks on channels, so that threads and greenlets wait for each other alike."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from punctual._punctual import chan, default, select
from punctual.golang._func import panic

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Mutex", "Once", "RWMutex", "Sema", "WaitGroup"]


class Sema:
    """A binary semaphore. Any thread or greenlet may release it."""

    def __init__(self) -> None:
        # Holds an item while the semaphore is acquired.
        self._held: chan[None] = chan(1)

    def acquire(self) -> None:
        """Acquire the semaphore. Blocks while it is acquired, first come, first served."""
        self._held.send(None)

    def release(self) -> None:
        """Release the semaphore. Raises `PanicError` if it is not acquired."""
        if select(self._held.recv, default)[0] == 1:
            panic("sync: release of a semaphore that is not acquired")

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Mutex:
    """A lock that is not recursive. Any thread or greenlet may unlock it."""

    def __init__(self) -> None:
        # Holds an item while the mutex is locked.
        held: chan[None] = chan(1)
        self._send, self._taking = held.send, (held.recv, default)

    def lock(self) -> None:
        """Lock the mutex. Blocks while it is locked, first come, first served."""
        self._send(None)

    def unlock(self) -> None:
        """Unlock the mutex. Raises `PanicError` if it is not locked."""
        if select(*self._taking)[0] == 1:
            panic("sync: unlock of unlocked mutex")

    def __enter__(self) -> None:
        self._send(None)

    def __exit__(self, *_: object) -> None:
        self.unlock()


class RWMutex:
    """A lock for one writer or many readers. In a `with` statement it is locked for writing.

    A waiting writer stops new readers. When a writer unlocks, the waiting readers come first, so
    neither writers nor readers starve.
    """

    def __init__(self) -> None:
        self._state = Mutex()
        self._writing = False
        self._readers = 0
        # One channel per waiting thread. The thread that admits it sends an item into the channel.
        self._waiting_writers: deque[chan[None]] = deque()
        self._waiting_readers: deque[chan[None]] = deque()

    def Lock(self) -> None:  # noqa: N802 - pygolang's name
        """Lock for writing. Blocks while others read or write."""
        with self._state:
            if not self._writing and self._readers == 0:
                self._writing = True
                return
            turn = self._queue(self._waiting_writers)
        self._wait(turn, self._waiting_writers, self.Unlock)

    def Unlock(self) -> None:  # noqa: N802
        """End the writing. Raises `PanicError` if the mutex is not locked for writing."""
        with self._state:
            if not self._writing:
                panic("sync: Unlock of unlocked RWMutex")
            self._writing = False
            self._admit_readers()
            self._admit_writer()

    def RLock(self) -> None:  # noqa: N802
        """Lock for reading. Blocks while another thread writes or waits to write."""
        with self._state:
            if not self._writing and not self._waiting_writers:
                self._readers += 1
                return
            turn = self._queue(self._waiting_readers)
        self._wait(turn, self._waiting_readers, self.RUnlock)

    def RUnlock(self) -> None:  # noqa: N802
        """End a reading. Raises `PanicError` if the mutex is not locked for reading."""
        with self._state:
            if self._readers == 0:
                panic("sync: RUnlock of unlocked RWMutex")
            self._readers -= 1
            self._admit_writer()

    def UnlockToRLock(self) -> None:  # noqa: N802
        """Exchange the lock for writing for a lock for reading; no writer comes in between.

        Raises `PanicError` if the mutex is not locked for writing.
        """
        with self._state:
            if not self._writing:
                panic("sync: UnlockToRLock of unlocked RWMutex")
            self._writing = False
            self._readers = 1
            self._admit_readers()

    def __enter__(self) -> None:
        self.Lock()

    def __exit__(self, *_: object) -> None:
        self.Unlock()

    @staticmethod
    def _queue(queue: deque[chan[None]]) -> chan[None]:
        turn: chan[None] = chan(1)
        queue.append(turn)
        return turn

    def _wait(self, turn: chan[None], queue: deque[chan[None]], undo: Callable[[], None]) -> None:
        try:
            turn.recv()
        except BaseException:
            with self._state:
                admitted = turn not in queue
                if not admitted:
                    queue.remove(turn)
                    if not self._writing and not self._waiting_writers:
                        self._admit_readers()
            if admitted:
                undo()
            raise

    def _admit_readers(self) -> None:
        while self._waiting_readers:
            self._readers += 1
            self._waiting_readers.popleft().send(None)

    def _admit_writer(self) -> None:
        if self._waiting_writers and self._readers == 0:
            self._writing = True
            self._waiting_writers.popleft().send(None)


class Once:
    """Runs one function once."""

    def __init__(self) -> None:
        self._mutex = Mutex()
        self._done = False

    def do(self, f: Callable[[], Any]) -> None:
        """Call `f` if this is the first call of `do`, even if that raises an exception.

        Later calls do nothing. They return after the first call has ended.
        """
        if not self._done:
            with self._mutex:
                if not self._done:
                    try:
                        f()
                    finally:
                        self._done = True


class WaitGroup:
    """Waits until a number of tasks are done."""

    def __init__(self) -> None:
        self._state = Mutex()
        self._tasks = 0
        # Closed when no task is left.
        self._all_done: chan[None] = chan()

    def add(self, delta: int) -> None:
        """Add `delta` tasks. Raises `PanicError` if the number of tasks would be negative."""
        with self._state:
            if self._tasks + delta < 0:
                panic("sync: negative WaitGroup counter")
            before, self._tasks = self._tasks, self._tasks + delta
            if before > 0 and self._tasks == 0:
                self._all_done.close()
                self._all_done = chan()

    def done(self) -> None:
        """Remove a task: `add(-1)`."""
        self.add(-1)

    def wait(self) -> None:
        """Block until the number of tasks is 0."""
        with self._state:
            if self._tasks == 0:
                return
            all_done = self._all_done
        all_done.recv()
