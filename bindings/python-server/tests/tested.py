"""The server under test: the class `Server` of the package that the variable TESTED names.

bindings/python-embedded runs these tests with its own class.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from punctual_server import BaseServer

PACKAGE = os.environ.get("TESTED", "punctual_server")
CHILD = PACKAGE == "punctual_server"
if CHILD:
    # The fixtures would use the embedded server, which is installed for other tests.
    missing: Any = None
    sys.modules["punctual_embedded"] = missing

Server: type[BaseServer] = importlib.import_module(PACKAGE).Server
EXAMPLE = f"import {PACKAGE} as package\n"
"""The beginning of a program that uses this package."""
