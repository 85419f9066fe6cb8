#!/usr/bin/env python3
"""Makes a test program of the C++ blocks in README.md and docs/.

    tools/extract_snippets.py OUT.cpp PAGE.md...

The ```cpp blocks of one page are one function body, in the order of the page: what one block declares the next may use.
A block ```output right after one says what it prints; right after a ```cpp and a ```python block, what both print (after
other languages it is theirs). Lines keep the page's numbers, so that a compiler's message points into the page.
The Python of the pages is run by python/tests/test_docs.py, which reads them with `blocks`.
"""
import pathlib
import re
import sys


def blocks(page):
    """(info string, first line number, lines) of every fenced block."""
    info, start, lines = None, 0, []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if info is None:
            if line.startswith("```"):
                info, start, lines = line[3:].strip(), number + 1, []
        elif line.startswith("```"):
            yield info, start, lines
            info = None
        else:
            lines.append(line)


def test_of(page):
    includes, body, before, end = [], [], "", 0
    for info, start, lines in blocks(page):
        if info == "cpp":
            body.append(f'#line {start} "{page.name}"')
            for line in lines:
                # An include, or the short name, belongs above the function; an empty line keeps the numbers.
                if line.startswith("#include"):
                    includes.append(line)
                    line = ""
                body.append(line)
        elif info == "output" and before == "cpp":
            text = "\n".join(lines) + "\n"
            body.append(f'#line {start} "{page.name}"')
            body.append(f'varve::test::expect_printed(page_output, R"~~({text})~~", {start});')
        below = start == end + 2  # nothing stands between
        before, end = ("cpp" if info == "python" and before == "cpp" and below else info), start + len(lines)
    if not body:
        return [], ""
    name = re.sub(r"\W", "_", page.stem)
    head = f"TEST(Docs, {name}) {{\n  varve::test::PageOutput page_output;\n"
    return includes, head + "\n".join(body) + "\n}\n"


def main():
    out = pathlib.Path(sys.argv[1])
    includes, tests = [], []
    for path in sys.argv[2:]:
        more, test = test_of(pathlib.Path(path))
        includes += [line for line in more if line not in includes]
        if test:
            tests.append(test)
    head = ['#include "docs/page_output.h"', "#include <cmath>", "#include <iostream>", "#include <varve/varve.h>"]
    text = "\n".join(head + includes + ["", "namespace vv = varve;", ""] + tests)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
