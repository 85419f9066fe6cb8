"""The command line: `python -m varve` is `varve`."""

from __future__ import annotations

import os
import sys


def _program() -> str:
    """The command beside this file, beside the compiled module (an editable installation), or in the build folder."""
    from . import _core

    here, core = (os.path.dirname(os.path.abspath(path or "")) for path in (__file__, _core.__file__))
    places = [os.path.join(here, "bin"), os.path.join(core, "bin"), os.path.dirname(os.path.dirname(core))]
    for place in places:
        program = os.path.join(place, "varve")
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    sys.exit(f"varve: the command is not part of this build of the package; looked in {', '.join(places)}")


def main() -> None:
    program = _program()
    # `varve bench` measures the package in the Python that it was started from. Taking the place of this process leaves
    # signals and exit codes to the command.
    os.environ.setdefault("VARVE_PYTHON", sys.executable)
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
