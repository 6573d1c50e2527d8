"""Generated mutants: what is changed, and by which tests it is judged."""

from __future__ import annotations

import ast

import pytest

from tests.mutants.generated import (
    ROOT,
    Change,
    changes_of,
    files,
    judges_of,
    sampled,
    survivors,
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a = b < c", ["a = b <= c"]),
        ("a = b <= c > d", ["a = b < c > d", "a = b <= c >= d"]),
        ("a = 'ä' is not b", ["a = 'ä' is b"]),
        ("a = b or c", ["a = b and c"]),
        ("a = not (b)", ["a = (b)"]),
        ("if a(): b = 1", ["if (not (a())): b = 1"]),
        ("a(1)", ["pass"]),
        ("try: a = 1\nexcept KeyError: a = 2", ["try: a = 1\nexcept Exception: a = 2"]),
        # Nobody could notice.
        ("_log.info('a')", []),
        ("def a(b: c or d) -> e or f: return b", []),
        ("if TYPE_CHECKING: a(1)", []),
        ("'a < b'", []),
    ],
)
def test_python_is_changed_at_one_place(before: str, after: list[str]) -> None:
    assert [each.applied_to(before) for each in changes_of("a.py", before)] == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if a == b then", ["if a ~= b then"]),
        ("return not a and b", ["return a and b", "return not a or b"]),
        ("  redis.call('DEL', key)", [""]),
        ("  local a = redis.call('GET', key)", []),
        ("local a = 'b < c' -- d < e", []),
    ],
)
def test_lua_is_changed_at_one_place(before: str, after: list[str]) -> None:
    assert [each.applied_to(before) for each in changes_of("a.lua", before)] == after


@pytest.mark.slow
def test_what_is_made_of_python_is_python() -> None:
    for file in files()[::7]:
        text = (ROOT / file).read_text()
        for change in changes_of(file, text) if file.endswith(".py") else ():
            ast.parse(change.applied_to(text))


def test_a_larger_sample_of_a_seed_begins_with_a_smaller_one() -> None:
    assert sampled(30, 1)[:10] == sampled(10, 1)
    assert sampled(30, 1) != sampled(30, 2)


def test_it_is_judged_by_those_that_name_it_then_by_its_room_and_those_around() -> None:
    found = judges_of(Change("worker/send/pool.py", 0, 0, ""))
    assert found.index("tests/worker/send/test_pool.py") < found.index("tests/worker/send")
    assert found.index("tests/worker/send") < found.index("tests/worker")
    assert "tests/api" in judges_of(Change("scheduler/store/lifecycle/end/end.lua", 0, 0, ""))


def test_each_record_of_a_survivor_is_of_a_change_that_could_be_made() -> None:
    for survivor, why in survivors().items():
        text = (ROOT / survivor.file).read_text()
        lines = [each.line_in(text)[1:] for each in changes_of(survivor.file, text)]
        assert (survivor.before, survivor.after) in lines, survivor
        assert why
