"""A Jupyter notebook as a Markdown page, for tools/site.

Notebooks are stored without outputs. The tests of the Python package execute them and leave the executed ones in
build/notebooks, from where the page takes what they showed.
"""
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent


def title(path):
    """Its first heading."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        found = re.match(r"# (.+)", "".join(cell["source"]))
        if found:
            return found[1]
    return path.stem


def fenced(kind, text):
    return ["```" + kind, *re.sub(r"\x1b\[[0-9;]*m", "", text).rstrip("\n").splitlines(), "```", ""]


def output_lines(output):
    if output["output_type"] == "stream":
        # A bar is drawn over itself: what stands after the last carriage return is what a reader saw in the end.
        shown = [line.rsplit("\r", 1)[-1] for line in "".join(output["text"]).splitlines()]
        return fenced("text", "\n".join(shown))
    data = output.get("data", {})
    for kind in ("text/html", "image/svg+xml"):
        if kind in data:
            return ['<div class="shown">', *"".join(data[kind]).splitlines(), "</div>", ""]
    if "image/png" in data:
        return [f'<img alt="" src="data:image/png;base64,{"".join(data["image/png"]).strip()}">', ""]
    return fenced("text", "".join(data.get("text/plain", "")))


def markdown(path):
    executed = ROOT / "build/notebooks" / path.name
    stored = json.loads(path.read_text(encoding="utf-8"))["cells"]
    cells = json.loads(executed.read_text(encoding="utf-8"))["cells"] if executed.exists() else []
    if ["".join(cell["source"]) for cell in cells] != ["".join(cell["source"]) for cell in stored]:
        cells = stored  # none, or those of another version
    lines = []
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            lines += [source, ""]
        elif source.strip():
            lines += fenced("python", source)
            for output in cell.get("outputs", []):
                lines += output_lines(output)
    if cells is stored:
        lines += ["*Shown without outputs: `make test-python` executes the notebook, and the site built after it shows them.*"]
    return "\n".join(lines) + "\n"
