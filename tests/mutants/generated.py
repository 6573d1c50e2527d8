"""Mutants that are generated: a condition turned, a bound moved by one, a call dropped, an `except`
widened. They find cases that no mutant of the list covers.

They are sampled with a seed from `scheduler/`, `worker/` and `api/` without its dashboard, a third
of them from Lua. Each is judged by the tests that name its module, then by those of its room, and of
the rooms around that. One that lives wants a test; or it changes nothing that anybody could
notice, and then stands in `survivors.txt` with the reason.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from tests.mutants.mutants import entries

ROOT = Path(__file__).resolve().parents[2]
_RECORD = Path(__file__).with_name("survivors.txt")
_ROOMS = ("scheduler", "worker", "api")
_LEFT_OUT = ("api/dashboard/", "api/openapi/", "api/static/")
_LUA_SHARE = 1 / 3
_TURNED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_OPERATOR = re.compile(r"<=|>=|==|!=|<|>|\bis\s+not\b|\bnot\s+in\b|\bis\b|\bin\b")
# What these do is seen by people, or by the type checker, and by no other code.
_UNSEEN = re.compile(r"_log\.|click\.echo|reveal_type|warnings\.")
_LUA_STRING = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|--[^\n]*")
_LUA_TURNED = {"==": "~=", "~=": "==", "<=": "<", ">=": ">", "<": "<=", ">": ">="}
_LUA_OPERATOR = re.compile(r"==|~=|<=|>=|<|>|\bnot (?=\w)|\band\b|\bor\b")
_LUA_CALL = re.compile(r"^ *(?:redis\.p?call|[a-z_.]+)\([^\n]*\)$", re.MULTILINE)


class Change(NamedTuple):
    """The text from `start` to `end` of a file becomes `instead`."""

    file: str
    start: int
    end: int
    instead: str

    def applied_to(self, text: str) -> str:
        return text[: self.start] + self.instead + text[self.end :]

    def line_in(self, text: str) -> tuple[int, str, str]:
        """The number of its first line, and that line before and after."""
        first = text.rfind("\n", 0, self.start) + 1
        last = text.find("\n", self.start)
        changed = self.applied_to(text)
        after = changed[first : changed.find("\n", self.start + len(self.instead))]
        return text.count("\n", 0, first) + 1, text[first:last].strip(), after.strip()


class Survivor(NamedTuple):
    """A line before and after a change that nobody could notice."""

    file: str
    before: str
    after: str


def survivors() -> dict[Survivor, str]:
    """Those on record, and why they are harmless."""
    records = entries(_RECORD.read_text())
    return {Survivor(file, before, after): why for file, why, before, after in records}


def files() -> list[str]:
    found = [
        path.relative_to(ROOT).as_posix()
        for room in _ROOMS
        for path in (ROOT / room).rglob("*")
        if path.suffix in (".py", ".lua")
    ]
    return sorted(name for name in found if not name.startswith(_LEFT_OUT))


def changes_of(file: str, text: str) -> list[Change]:
    """All that can be made of a file, in order."""
    found = _of_lua(text) if file.endswith(".lua") else _of_python(text)
    return [Change(file, *each) for each in sorted(set(found))]


def sampled(count: int, seed: int) -> list[Change]:
    """The same for the same seed and tree; a larger sample of a seed begins with a smaller one."""
    chance = random.Random(seed)
    pools = [list(each) for each in _all_changes()]
    for pool in pools:
        chance.shuffle(pool)
    found = list[Change]()
    for n in range(count):
        is_lua = int((n + 1) * _LUA_SHARE) > int(n * _LUA_SHARE)
        if pool := pools[is_lua] or pools[not is_lua]:
            found.append(pool.pop())
    return found


@cache
def _all_changes() -> tuple[list[Change], list[Change]]:
    """Of Python, and of Lua."""
    found: tuple[list[Change], list[Change]] = [], []
    for file in files():
        found[file.endswith(".lua")].extend(changes_of(file, (ROOT / file).read_text()))
    return found


def judges_of(change: Change) -> list[str]:
    """Tests that may notice, those first that are most likely to."""
    path = Path(change.file)
    imported = re.compile("|".join(map(_import_of, _callers_of(path.as_posix()))) or "(?!)")
    room = Path("tests", path.parent.as_posix().replace("scheduler/store", "store", 1))
    rooms = [each for each in (room, *room.parents) if each.parts[1:] and (ROOT / each).is_dir()]
    if path.parts[1] == "store":
        rooms += [Path("tests/api"), Path("tests/worker")]
    naming, found = list[Path](), list[Path]()
    for each in rooms:
        found.append(each)
        for test in sorted((ROOT / each).rglob("test_*.py")):
            if imported.search(test.read_text()):
                naming.append(test.relative_to(ROOT))
    return list(dict.fromkeys(each.as_posix() for each in (*naming, *found)))


def _import_of(file: str) -> str:
    """What a file that imports a module has, as a regular expression."""
    module = file.removesuffix(".py").replace("/", ".")
    room, _, name = module.rpartition(".")
    return rf"{module}\b|from {room} import [^)\n]*\b{name}\b"


@cache
def _callers_of(file: str) -> list[str]:
    """The modules that run a script, or one that includes it; a module itself."""
    if file.endswith(".py"):
        return [file]
    name = file.removeprefix("scheduler/store/").removesuffix(".lua").removesuffix(".inc")
    found = []
    for each in files():
        text = (ROOT / each).read_text()
        if each.endswith(".py") and f'Script("{name}")' in text:
            found.append(each)
        elif each != file and re.search(rf"^--@include {name}$", text, re.MULTILINE):
            found += _callers_of(each)
    return found


_Found = Iterator[tuple[int, int, str]]


def _of_lua(text: str) -> _Found:
    code = _LUA_STRING.sub(lambda match: " " * len(match[0]), text)
    for match in _LUA_OPERATOR.finditer(code):
        word = match[0].strip()
        instead = {"not": "", "and": "or", "or": "and"}.get(word) or _LUA_TURNED.get(word, "")
        yield match.start(), match.end(), instead
    for match in _LUA_CALL.finditer(code):
        if code.count("(", *match.span()) == code.count(")", *match.span()):
            yield match.start(), match.end(), ""


class _Source:
    """A file, and where the nodes of its tree begin and end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        first = self._place(node.lineno, node.col_offset)
        return first, self._place(node.end_lineno, node.end_col_offset)

    def _place(self, line: int, column_bytes: int) -> int:
        first, last = self._starts[line - 1 : line + 1]
        return first + len(self.text[first:last].encode()[:column_bytes].decode())


def _of_python(text: str) -> _Found:
    source = _Source(text)
    for node in _nodes(ast.parse(text)):
        for kind, changes in _CHANGES.items():
            if isinstance(node, kind):
                yield from changes(source, node)


def _compared(source: _Source, node: ast.Compare) -> _Found:
    pairs = pairwise([node.left, *node.comparators])
    for (one, other), operator in zip(pairs, node.ops, strict=True):
        found = _OPERATOR.search(source.text, source.span(one)[1], source.span(other)[0])
        if found is not None:
            yield *found.span(), _TURNED[type(operator)]


def _joined(source: _Source, node: ast.BoolOp) -> _Found:
    word, instead = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    for one, other in pairwise(node.values):
        at = source.text.find(word, source.span(one)[1], source.span(other)[0])
        yield at, at + len(word), instead


def _negated(source: _Source, node: ast.UnaryOp) -> _Found:
    if isinstance(node.op, ast.Not):
        first = source.span(node)[0]
        yield first, first + len("not "), ""


def _decided(source: _Source, node: ast.If | ast.IfExp | ast.While) -> _Found:
    """Others than those that have a sign to be changed."""
    if not isinstance(node.test, ast.Compare | ast.UnaryOp | ast.Constant):
        first, last = source.span(node.test)
        yield first, last, f"(not ({source.text[first:last]}))"


def _called(source: _Source, node: ast.Expr) -> _Found:
    called = node.value.value if isinstance(node.value, ast.Await) else node.value
    first, last = source.span(node)
    if isinstance(called, ast.Call) and not _UNSEEN.search(source.text, first, last):
        yield first, last, "pass"


def _caught(source: _Source, node: ast.ExceptHandler) -> _Found:
    if node.type is not None and ast.unparse(node.type) != "Exception":
        yield *source.span(node.type), "Exception"


_CHANGES: dict[Any, Callable[[_Source, Any], _Found]] = {
    ast.Compare: _compared,
    ast.BoolOp: _joined,
    ast.UnaryOp: _negated,
    (ast.If, ast.IfExp, ast.While): _decided,
    ast.Expr: _called,
    ast.ExceptHandler: _caught,
}


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes except type annotations and code for the type checker."""
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        for node in value if isinstance(value, list) else [value]:
            is_for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            if isinstance(node, ast.AST) and not is_for_types and not isinstance(node, ast.Assert):
                yield node
                yield from _nodes(node)
