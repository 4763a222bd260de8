"""Runs functions in forks."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable


def in_a_child(run: Callable[[], None]) -> int:
    """Runs a function in a fork that ends normally, with finalizers. Returns the exit code."""
    with warnings.catch_warnings():
        # Python warns about forks of processes with threads, which this tests.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        try:
            run()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
