"""Fixtures for pytest; installed with the package."""
