#!/usr/bin/env python3
"""The CPU share of timers, by sampling stacks: what quic_timers cannot measure from within.

    crates/punctual-quinn/examples/quic_timers/share.py --connections 1000

Builds quic_timers with frame pointers, runs it under `perf record` once on either's timers, and
counts the samples with a timer on the stack: for both, tokio's `time` modules; for Punctual, its
crates besides. What runs further down in tokio's I/O driver is not the timers': tokio's thread
parks within its time driver. Waking tasks is counted for both.

Needs perf and addr2line (binutils). The arguments are those of quic_timers.
"""

import os
import re
import subprocess
import sys
import tempfile

TIMERS = re.compile(r"/tokio-[^/]*/src/(runtime/time|time)/|crates/punctual(-quinn)?/src/")
INPUT_OUTPUT = re.compile(r"/src/runtime/io/|/mio-")
SAMPLE = re.compile(r"\s*([0-9a-f]+)\s+(.*)\s\((.*)\)$")


def build():
    env = dict(os.environ, RUSTFLAGS="-Cforce-frame-pointers=yes")
    target = env.setdefault("CARGO_TARGET_DIR", "target") + "/frame-pointers"
    env["CARGO_TARGET_DIR"] = target
    cargo = ["cargo", "build", "--release", "-p", "punctual-quinn", "--example", "quic_timers"]
    subprocess.run(cargo, check=True, env=env)
    return os.path.abspath(target + "/release/examples/quic_timers")


def stacks(profile):
    """Per sample its frames, leaf first: (address in the file, symbol, file)."""
    script = ["perf", "script", "-i", profile, "-F", "ip,sym,dso"]
    text = subprocess.run(script, check=True, capture_output=True, text=True).stdout
    for sample in re.split(r"\n\s*\n", text):
        frames = [m.groups() for m in map(SAMPLE.match, sample.splitlines()) if m]
        if frames:
            yield frames


def code_offset(program):
    """perf tells offsets in the file; debug information speaks of addresses in memory."""
    headers = subprocess.run(["readelf", "-lW", program], check=True, capture_output=True, text=True)
    for line in headers.stdout.splitlines():
        fields = line.split()
        if fields[:1] == ["LOAD"] and "E" in fields[6:8]:
            return int(fields[2], 16) - int(fields[1], 16)
    raise SystemExit(f"{program} has no code")


def source_files(program, offsets):
    """Per offset the source files of its function and of those it is inlined in."""
    shift = code_offset(program)
    lookup = ["addr2line", "-e", program, "-i", "-a"]
    addresses = "\n".join(hex(offset + shift) for offset in offsets)
    lines = subprocess.run(lookup, input=addresses, check=True, capture_output=True, text=True)
    files = {}
    for line in lines.stdout.splitlines():
        if line.startswith("0x"):
            files[int(line, 16) - shift] = found = []
        else:
            found.append(line)
    return files


def share(program, profile):
    samples = list(stacks(profile))
    ours = os.path.basename(program)
    of_ours = lambda dso: os.path.basename(dso) == ours
    files = source_files(program, {int(ip, 16) for s in samples for ip, _, dso in s if of_ours(dso)})
    counted = 0
    for frames in samples:
        paths = (
            path
            for ip, _, dso in frames
            for path in (files.get(int(ip, 16), []) if of_ours(dso) else [dso])
        )
        # The frame nearest the leaf decides.
        for path in paths:
            if INPUT_OUTPUT.search(path):
                break
            if TIMERS.search(path):
                counted += 1
                break
    return counted, len(samples)


def main():
    arguments = sys.argv[1:]
    if {"-h", "--help"} & set(arguments):
        return print(__doc__)
    program = build()
    for timers in ["tokio", "punctual"]:
        with tempfile.NamedTemporaryFile(suffix=".perf") as profile:
            record = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "5000", "--call-graph", "fp"]
            record += ["-o", profile.name, program, "--rounds", "1", "--only", timers]
            subprocess.run(record + arguments, check=True)
            counted, samples = share(program, profile.name)
        print(f"{timers:9} {counted:6} of {samples:7} samples in timers: {100 * counted / samples:.2f}%")


main()
