"""The program `punctual-server`, which the wheel installs among the scripts of its environment."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig

__all__ = ["find"]

VARIABLE = "PUNCTUAL_SERVER_BINARY"


def find() -> str:
    """Return the path of the server's binary.

    It is the value of the environment variable `PUNCTUAL_SERVER_BINARY`, or `punctual-server` of
    this Python environment, or `punctual-server` or `punctual` on PATH.

    Raises:
        FileNotFoundError: There is no such file.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return named
    # `pip install --user` uses the second folder.
    for scheme in (None, f"{os.name}_user"):
        folder = sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts")
        path = os.path.join(folder, "punctual-server")
        if os.access(path, os.X_OK):
            return path
    found = shutil.which("punctual-server") or shutil.which("punctual")
    if found is None:
        raise FileNotFoundError(
            "the program punctual-server is missing: this installation of the package"
            f" punctual-server has no binary for {sys.platform}; put the path of one into"
            f" the environment variable {VARIABLE}"
        )
    return found
