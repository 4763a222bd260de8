"""The tests of bindings/python-server run here with the server of this package."""

from __future__ import annotations

import os

os.environ["TESTED"] = "punctual_embedded"
