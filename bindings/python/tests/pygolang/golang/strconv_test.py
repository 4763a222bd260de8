"""Strings of pygolang, whose tests are skipped."""


def byterange(start: int, stop: int) -> bytes:
    return bytes(range(start, stop))
