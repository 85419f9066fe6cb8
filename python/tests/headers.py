"""What the public C++ headers declare: functions, classes with their methods and fields, constants."""

from __future__ import annotations

import pathlib
import re
from typing import Dict, Iterator, List, NamedTuple, Tuple

INCLUDE = pathlib.Path(__file__).parents[2] / "include/varve"


class Declared(NamedTuple):
    kind: str  # function, class, enum, constant
    namespace: str  # "varve::nn"
    name: str
    parameters: str = ""
    methods: Tuple[str, ...] = ()
    fields: Tuple[str, ...] = ()


def cleaned(text: str) -> str:
    text = re.sub(r'"(\\.|[^"\\\n])*"', '""', text)
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    return re.sub(r"'.'", "0", text)


def closing(text: str, at: int, pair: str = "{}") -> int:
    """Where the bracket at `at` closes."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == pair[0]) - (text[i] == pair[1])
        if depth == 0:
            return i
    raise ValueError("a bracket is never closed")


def statements(text: str) -> Iterator[Tuple[str, str]]:
    """The statements of a block: what stands before its body or semicolon, and the body."""
    at = start = 0
    while at < len(text):
        if text[at] == ";":
            yield text[start:at].strip(), ""
            start = at + 1
        elif text[at] == "(":
            at = closing(text, at, "()")
        elif text[at] == "{":
            end = closing(text, at)
            head = text[start:at].strip()
            if re.search(r"=\s*$|\b(return|const)\s+\w+$", head) or re.search(r"[=(,]\s*$", head):
                at = end  # a value in braces
            else:
                yield head, text[at + 1 : end]
                rest = re.match(r"\s*;", text[end + 1 :])
                start = at = end + 1 + (rest.end() if rest else 0)
                continue
        at += 1


def without_template(head: str) -> str:
    while (found := re.match(r"(template\s*)<", head)):
        head = head[closing(head, found.end() - 1, "<>") + 1 :].strip()
    return re.sub(r"^requires\s*(\([^()]*(\([^()]*\)[^()]*)*\)|[\w:]+<[^>]*(<[^>]*>[^>]*)*>)\s*", "", head)


def function_of(head: str) -> Tuple[str, str]:
    """The name and the parameters of a function's declaration, or two empty strings."""
    if "operator" not in head:
        while re.search(r"<[^<>]*>", head):  # std::function<Tensor(const Tensor&)> is a type, not a function
            head = re.sub(r"<[^<>]*>", "", head)
    found = re.search(r"(\boperator\s*[^\s(]+|~?\b[A-Za-z_]\w*)\s*\(", head)
    if not found or head.startswith(("using", "friend", "typedef")):
        return "", ""
    end = closing(head, found.end() - 1, "()")
    return found[1], head[found.end() : end]


def names_of(declaration: str) -> List[str]:
    """`double a = 1, b = 2` declares a and b."""
    flat = re.sub(r"\{[^{}]*\}|\([^()]*\)", "", declaration)
    while re.search(r"<[^<>]*>", flat):
        flat = re.sub(r"<[^<>]*>", "", flat)
    flat = re.sub(r"=[^,]*", "", flat)
    parts = flat.split(",")
    first = parts[0].split()
    return [each for each in ([first[-1]] if len(first) > 1 else []) + [part.strip() for part in parts[1:]] if re.match(r"\w+$", each)]


def members(body: str, public: bool) -> Tuple[List[str], List[str], List[Tuple[str, str]]]:
    methods, fields, nested = [], [], []
    for head, inner in statements(body):
        while (label := re.match(r"(public|protected|private)\s*:", head)):
            public = label[1] == "public"
            head = head[label.end() :].strip()
        head = without_template(head)
        if not public or not head:
            continue
        if re.match(r"(class|struct|enum)\b", head):
            if inner:
                nested.append((head, inner))
            continue
        name, _ = function_of(head)
        if name and not re.search(r"\boperator\b|~", name):
            methods.append(name)
        elif not name and not head.startswith(("using", "friend", "explicit")) and "operator" not in head:
            fields += [field for field in names_of(head) if not field.endswith("_")]
    return methods, fields, nested


def declared_in(text: str, namespace: str) -> Iterator[Declared]:
    for head, body in statements(text):
        head = without_template(head)
        if (found := re.match(r"(?:inline )?namespace ([\w:]+)$", head)):
            if found[1].split("::")[-1] not in ("detail", "ir"):
                yield from declared_in(body, f"{namespace}::{found[1]}".lstrip(":"))
        elif (found := re.match(r"(class|struct)\s+(\w+)(?:\s+final)?(?:\s*:[^{]*)?$", head)):
            if body:
                yield from class_of(found[1], found[2], body, namespace)
        elif (found := re.match(r"enum (?:class )?(\w+)", head)):
            values = tuple(re.findall(r"\b([A-Za-z_]\w*)\b(?=\s*(?:=[^,]*)?(?:,|$))", body))
            yield Declared("enum", namespace, found[1], fields=values)
        elif (found := re.match(r"(?:extern const|inline constexpr) [\w:]+ (.*)$", head, re.S)):
            for name in re.findall(r"(?:^|,)\s*(\w+)", re.sub(r"=.*|\{.*|\[.*", "", found[1], flags=re.S)):
                yield Declared("constant", namespace, name)
        else:
            name, parameters = function_of(head)
            if name and "operator" not in name:
                yield Declared("function", namespace, name, parameters)


def class_of(keyword: str, name: str, body: str, namespace: str) -> Iterator[Declared]:
    methods, fields, nested = members(body, keyword == "struct")
    own = tuple(dict.fromkeys(method for method in methods if method != name))
    yield Declared("class", namespace, name, methods=own, fields=tuple(fields))
    for head, inner in nested:
        found = re.match(r"(class|struct|enum)\s+(?:class )?(\w+)", head)
        if found and found[1] != "enum":
            yield from class_of(found[1], found[2], inner, f"{namespace}::{name}")


def everything() -> Dict[str, Declared]:
    """All of it by full name; of overloads the one with the most parameters."""
    found: Dict[str, Declared] = {}
    for path in sorted(INCLUDE.rglob("*.h")):
        for each in declared_in(cleaned(path.read_text()), ""):
            full = f"{each.namespace}::{each.name}"
            if full not in found or len(each.parameters) > len(found[full].parameters):
                found[full] = each
    return found
