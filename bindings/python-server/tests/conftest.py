"""Chooses the server under test before pytest collects the tests."""

import tested  # noqa: F401
