"""`python -m varve.launch -n 4 train.py` is `varve launch -n 4 python train.py`, with this Python."""

from __future__ import annotations

import os
import re
import sys

from .__main__ import _program


def _words(words: list[str]) -> list[str]:
    """The same words, with this Python before a program that is a file of Python, unless a Python stands there already."""
    for at, word in enumerate(words):
        if re.fullmatch(r"python[0-9.]*", os.path.basename(word)):
            return words
        if word.endswith(".py"):
            return [*words[:at], sys.executable, *words[at:]]
    return words


def main() -> None:
    program = _program()
    os.execv(program, [program, "launch", *_words(sys.argv[1:])])


if __name__ == "__main__":
    main()
