"""Strings of pygolang, whose tests are skipped."""

qq = repr
