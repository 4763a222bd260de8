"""The hook of hatchling that puts the server's binary into the wheel.

The binary is the file in the environment variable BINARY; without it, the wheel has only Python
code, which looks for a binary on PATH. The wheel's tag states what the binary needs: its machine,
and the newest version of glibc among its symbols. A static binary needs none.
"""

import os
import re
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_MACHINES = {0x3E: "x86_64", 0xB7: "aarch64"}


def platform(binary: bytes) -> str:
    """Return the tag of the systems on which a binary runs."""
    if binary[:4] == b"\xcf\xfa\xed\xfe":
        # A binary of macOS. This was never tried.
        return "macosx_11_0_arm64" if binary[4] == 0x0C else "macosx_11_0_x86_64"
    if binary[:4] != b"\x7fELF":
        raise SystemExit("BINARY is not a binary of Linux or macOS")
    machine = _MACHINES[int.from_bytes(binary[18:20], "little")]
    minors = [int(minor) for minor in re.findall(rb"\0GLIBC_2\.(\d+)", binary)]
    minor = max(minors, default=0)
    # manylinux2014 is glibc 2.17; old versions of pip know only this name.
    return f"manylinux2014_{machine}" if minor <= 17 else f"manylinux_2_{minor}_{machine}"


class BinaryHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the binary as a script, and sets the tag."""

    def initialize(self, version: str, build_data: dict[str, object]) -> None:
        """Change the plan of a wheel. A wheel of an editable installation stays as it is."""
        binary = os.environ.get("BINARY")
        if not binary or version == "editable":
            return
        build_data["shared_scripts"] = {binary: "punctual-server"}
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform(Path(binary).read_bytes())}"
