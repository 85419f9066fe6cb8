"""Adds the licenses of what a repaired wheel carries besides our own code to its .dist-info/licenses/bundled.

    python tools/wheel_licenses.py WHEEL

auditwheel lists the Debian packages whose libraries it copied into the wheel; headers are compiled in from a few more, and from nanobind.
The texts are Debian's, /usr/share/doc/PACKAGE/copyright, with the common licenses that they refer to.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HEADERS = ["nlohmann-json3-dev", "libcli11-dev"]
COMMON = Path("/usr/share/common-licenses")


def packages(info: Path) -> list[str]:
    """Those whose libraries are in the wheel, from the bill of materials that auditwheel leaves."""
    found = set()
    for bill in info.glob("sboms/*.json"):
        found |= set(re.findall(r"pkg:deb/debian/([^@\"?]+)", json.dumps(json.loads(bill.read_text()))))
    if not found:
        sys.exit(f"wheel_licenses: no bill of materials in {info} names a Debian package. Build the wheel on Debian.")
    return sorted(found)


def copyright_of(package: str) -> Path:
    text = Path("/usr/share/doc") / package / "copyright"
    if not text.exists():
        sys.exit(f"wheel_licenses: {text} is missing: was it left out when the package was installed?")
    return text


def nanobind_license() -> Path:
    files = importlib.metadata.files("nanobind") or []
    return Path(next(file for file in files if file.name == "LICENSE").locate())


def main() -> None:
    wheel = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "wheel", "unpack", "--dest", folder, str(wheel)], check=True, stdout=subprocess.DEVNULL)
        [root] = Path(folder).iterdir()
        [info] = root.glob("*.dist-info")
        bundled = info / "licenses" / "bundled"
        bundled.mkdir(parents=True, exist_ok=True)
        referred: set[str] = set()
        for package in sorted({*packages(info), *HEADERS}):
            text = copyright_of(package)
            shutil.copy(text, bundled / package)
            referred |= set(re.findall(r"common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9])", text.read_text(errors="replace")))
        shutil.copy(nanobind_license(), bundled / "nanobind")
        for name in sorted(referred):
            if (COMMON / name).is_file():
                shutil.copy(COMMON / name, bundled / f"common-{name}")
        subprocess.run([sys.executable, "-m", "wheel", "pack", "--dest-dir", str(wheel.parent), str(root)], check=True, stdout=subprocess.DEVNULL)
        names = sorted(path.name for path in bundled.iterdir() if not path.name.startswith("common-"))
    print(f"{wheel.name}: licenses added of {', '.join(names)}")


if __name__ == "__main__":
    main()
