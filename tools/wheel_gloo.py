"""A copy of Debian's Gloo that a wheel may carry: python tools/wheel_gloo.py OUT_FOLDER

Its one symbol of a newer C++ run time than manylinux_2_34 has is std::condition_variable::wait, which GCC 12 declared noexcept
and gave a new version, GLIBCXX_3.4.30. Every run time since GCC 4.4 has the function as GLIBCXX_3.4.11, with the same arguments
and the same behaviour, and newer ones keep it under that version too: the copy asks for that one.
"""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
from pathlib import Path

from elftools.elf.elffile import ELFFile

NEW, OLD = b"GLIBCXX_3.4.30", b"GLIBCXX_3.4.11"
ONLY = {"_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE"}
NEED, AUXILIARY = struct.Struct("<HHIII"), struct.Struct("<IHHII")  # of .gnu.version_r: Verneed, Vernaux


def library() -> Path:
    found = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, env={**os.environ, "PATH": "/sbin:/usr/sbin:" + os.environ["PATH"]})
    for line in found.stdout.splitlines():
        if line.split()[:1] == ["libgloo.so.0"]:
            return Path(line.rsplit("=> ", 1)[1])
    sys.exit("wheel_gloo: libgloo.so.0 is not installed; tools/setup command installs it.")


def auxiliaries(content: bytes, start: int, needs: int) -> list[tuple[int, tuple[int, ...]]]:
    """Where each entry of a needed version lies, and its fields: hash, flags, index, offset of the name, offset of the next."""
    entries = []
    for _ in range(needs):
        _, count, _, first, onward = NEED.unpack_from(content, start)
        at = start + first
        for _ in range(count):
            entries.append((at, AUXILIARY.unpack_from(content, at)))
            at += entries[-1][1][4]
        start += onward
    return entries


def lowered(content: bytes) -> bytes:
    """The library with the entry of the new version renamed to the old one, which it asks for already."""
    elf = ELFFile(io.BytesIO(content))
    names, needed, versions = (elf.get_section_by_name(name) for name in (".dynstr", ".gnu.version_r", ".gnu.version"))
    entries = auxiliaries(content, needed["sh_offset"], needed["sh_info"])
    by_name = {names.get_string(fields[3]).encode(): (at, fields) for at, fields in entries}
    if NEW not in by_name:
        return content
    at, (_, flags, index, _, onward) = by_name[NEW]
    users = {
        symbol.name
        for place, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols())
        if versions.get_symbol(place)["ndx"] == index
    }
    if users != ONLY or OLD not in by_name:
        sys.exit(f"wheel_gloo: expected {NEW.decode()} of {', '.join(ONLY)} alone, found {', '.join(sorted(users))}.")
    old = by_name[OLD][1]
    changed = bytearray(content)
    AUXILIARY.pack_into(changed, at, old[0], flags, index, old[3], onward)
    return bytes(changed)


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    (out / "libgloo.so.0").write_bytes(lowered(library().read_bytes()))


if __name__ == "__main__":
    main()
