"""The command line: `python -m varve` is `varve`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    program = os.path.join(here, "bin", "varve")
    if not os.path.exists(program):
        sys.exit(f"varve: the command is not part of this build of the package: {program} is missing")
    # `varve bench` measures the package in the Python that it was started from. Taking the place of this process leaves
    # signals and exit codes to the command.
    os.environ.setdefault("VARVE_PYTHON", sys.executable)
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
