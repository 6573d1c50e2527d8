"""A file in YAML 1.2 as values, with the line of each. JSON is YAML."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import yaml

MOST_BYTES = 1024 * 1024
# Aliases make a small file large, so a value counts as often as aliases name it.
_MOST_WEIGHT = 4 * MOST_BYTES
_WEIGHT_OF_A_VALUE = 16
_DEEPEST = 64
_VARIABLE = re.compile(r"\$?\$\{([^}]*)\}?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# A surrogate pair as JSON escapes it; escaped backslashes are skipped.
_PAIR = re.compile(r"\\\\|(\\u[dD][89abAB]..\\u[dD][c-fC-F]..)")
# YAML refuses some of these, and takes the others for the ends of lines.
_NOT_IN_YAML = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_TAG = "tag:yaml.org,2002:"
_FLOAT = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"

Path = tuple[str | int, ...]


class Place(NamedTuple):
    file: str
    line: int


class Fault(NamedTuple):
    place: Place
    field: str
    message: str


class BadFiles(Exception):
    """The faults found in the files: at least one."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__(f"{len(faults)} faults")
        self.faults = faults


class Document(NamedTuple):
    file: str
    values: Any
    lines: Mapping[Path, int]

    def place(self, path: Path) -> Place:
        """Of the value, or of the nearest one around it that is in the file."""
        while path not in self.lines:
            path = path[:-1]
        return Place(self.file, self.lines[path])


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """With the scalars of YAML 1.2's core schema: PyYAML takes `no` for false and 1:30 for 90."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[Any]]] = {}


_SPELT = {
    "bool": re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"),
    "int": re.compile(r"[-+]?[0-9]+\Z"),
    "float": re.compile(rf"{_FLOAT}\Z"),
    "null": re.compile(r"(?:~|null|Null|NULL|)\Z"),
}
for _kind, _first in (
    ("bool", "tTfF"),
    ("int", "-+0123456789"),
    ("float", "-+.0123456789"),
    ("null", ["~", "n", "N", ""]),
):
    _Loader.add_implicit_resolver(_TAG + _kind, _SPELT[_kind], _first)

_SCALARS: Mapping[str, Callable[[str], Any]] = {
    "bool": lambda text: text.lower() == "true",
    "int": int,
    "float": float,
    "null": lambda text: None,
    "str": str,
}


def read(file: str, data: bytes, environment: Mapping[str, str]) -> Document:
    """`file` is its name for people. `${NAME}` in a text becomes a variable of the environment.
    Raises BadFiles."""
    return _Reader(file, environment).read(data)


class _Reader:
    def __init__(self, file: str, environment: Mapping[str, str]) -> None:
        self._file, self._environment = file, environment
        self._faults: list[Fault] = []
        self._lines: dict[Path, int] = {}
        self._weight = 0

    def read(self, data: bytes) -> Document:
        if len(data) > MOST_BYTES:
            raise self._only(1, f"It has more than {MOST_BYTES:,} bytes.")
        try:
            text = _text_of(data)
            self._judge_depth(text)
            node = yaml.compose(text, _Loader)
        except yaml.MarkedYAMLError as error:
            raise self._malformed(error) from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise self._only(1, f"It is not YAML in UTF-8: {error}.") from None
        if node is None:
            raise self._only(1, "It is empty.")
        values = self._value(node, ())
        if self._faults:
            raise BadFiles(self._faults)
        return Document(self._file, values, self._lines)

    def _judge_depth(self, text: str) -> None:
        """Before libyaml makes nodes of it: it recurses, and a deep text overflows the stack."""
        depth = 0
        for event in yaml.parse(text, _Loader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                line = event.start_mark.line + 1
                raise self._only(line, f"It is nested more than {_DEEPEST} deep.")

    def _value(self, node: yaml.Node, path: Path) -> Any:
        self._lines[path] = line = node.start_mark.line + 1
        self._weight += _WEIGHT_OF_A_VALUE
        if isinstance(node, yaml.ScalarNode):
            self._weight += len(node.value)
        if self._weight > _MOST_WEIGHT:
            raise self._only(line, "It has too many values, each alias counted as what it names.")
        if len(path) > _DEEPEST:  # by aliases
            raise self._only(line, f"It is nested more than {_DEEPEST} deep.")
        kind = node.tag.removeprefix(_TAG)
        if kind == "map":
            return self._mapping(node, path)
        if kind == "seq":
            return [self._value(each, (*path, n)) for n, each in enumerate(node.value)]
        if kind not in _SCALARS or not isinstance(node, yaml.ScalarNode):
            raise self._only(line, f"The tag {node.tag} means nothing here.")
        if kind == "str":
            return self._with_variables(str(node.value), line, path)
        if not _SPELT[kind].match(node.value):  # with a tag: `!!bool yes`, `!!float .nan`
            raise self._only(line, f"{node.value!r} is no value of the tag {node.tag}.")
        return self._number(_SCALARS[kind], node.value, line, path)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self._fault(line, path, "A name must be a text.")
                continue
            name = str(key.value)
            if name in found:
                self._fault(line, (*path, name), "It is there twice.")
            found[name] = self._value(value, (*path, name))
            self._lines[*path, name] = line
        return found

    def _number(self, make: Callable[[str], Any], text: str, line: int, path: Path) -> Any:
        try:
            value = make(text)
        except ValueError:  # so many digits that Python refuses them
            value = math.inf
        if value == math.inf or value == -math.inf:
            self._fault(line, path, "The number is too large.")
        return value

    def _with_variables(self, text: str, line: int, path: Path) -> str:
        def value_of(found: re.Match[str]) -> str:
            if found[0].startswith("$$"):
                return found[0][1:]
            if not found[0].endswith("}") or not _NAME.fullmatch(found[1]):
                message = "${ needs the name of a variable and }. Write $${ for a plain ${."
            elif (value := self._environment.get(found[1])) is None:
                message = f"The environment has no variable {found[1]}."
            else:
                self._weight += len(value)
                return value
            self._fault(line, path, message)
            return ""

        return _VARIABLE.sub(value_of, text)

    def _fault(self, line: int, path: Path, message: str) -> None:
        self._faults.append(Fault(Place(self._file, line), dotted(path), message))

    def _only(self, line: int, message: str) -> BadFiles:
        return BadFiles([Fault(Place(self._file, line), "", message)])

    def _malformed(self, error: yaml.MarkedYAMLError) -> BadFiles:
        mark = error.problem_mark or error.context_mark
        message = f"It is not YAML: {error.problem or error.context}."
        if "single document" in (error.context or ""):
            message = "A second document begins here: give each one a file of its own."
        if "alias" in f"{error.context} {message}":
            message += " Write a text that begins with * in quotes."
        return self._only(1 if mark is None else mark.line + 1, message)


def dotted(path: Path) -> str:
    """`recurring.report.retryDelays[0]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _text_of(data: bytes) -> str:
    """JSON may have tabs between values, a character as two escapes, and more characters than YAML
    takes as they are."""
    text = data.decode("utf-8-sig")
    try:
        if text.lstrip()[:1] == "{":
            json.loads(text)
            text = _PAIR.sub(_paired, text.replace("\t", " "))
            return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    except (ValueError, RecursionError):
        pass
    return text


def _paired(found: re.Match[str]) -> str:
    return str(json.loads(f'"{found[0]}"')) if found[1] else found[0]
