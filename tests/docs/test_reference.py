"""The pages of the reference have each call of the API, as the OpenAPI document describes it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ops.docs import reference
from tests.docs import english

PAGES = {path.name: path.read_text() for path in sorted(reference.PAGES.glob("*.md"))}
KNOWN = reference.Reference(PAGES)
_SNIPPETS = ["sh", "python", "ts"]


def section(call: str) -> str:
    """The text from the heading of the call to the next one."""
    place = KNOWN.places[KNOWN.calls[call]["operationId"]]
    parts = re.split(r"^(?=## )", PAGES[place.page], flags=re.MULTILINE)
    [found] = (part for part in parts if part.startswith(f"## {place.title}\n"))
    return found


@pytest.mark.parametrize("call", KNOWN.calls)
def test_each_call_has_a_section_with_its_snippets_answer_and_errors(call: str) -> None:
    text = section(call)
    said = text.partition(f"`{call}`\n\n")[2]
    assert re.match(r"[A-Z]", said), "a sentence says what it does"
    found = re.findall(r"^```(\w+)\n(.*?)^```\n(\n?)", text, re.DOTALL | re.MULTILINE)
    assert [language for language, _, _ in found[:3]] == _SNIPPETS
    beside = re.search(r"^```sh\n.*?^```\n\n```python\n.*?^```\n\n```ts\n", text, re.DOTALL | re.M)
    assert beside, "the three stand beside each other"
    for kind in ("answer", "errors"):
        assert text.count(f"<!-- generated: {call} {kind} -->") == 1
    operation = KNOWN.calls[call]
    if KNOWN.block("", f"{call} fields").strip():
        assert f"<!-- generated: {call} fields -->" in text
    assert "requestBody" not in operation or f"{call} fields" in text


@pytest.mark.parametrize("call", KNOWN.calls)
def test_the_curl_line_of_a_call_makes_that_call(call: str) -> None:
    text = section(call)
    method, _, path = call.partition(" ")
    [curl, *_] = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    pattern = re.sub(r"\\\{\w+\\\}", '[^/?" ]+', re.escape(f"http://127.0.0.1:8000{path}"))
    assert re.search(rf"{pattern}(?:[?\" \n]|$)", curl), curl
    given = re.search(r"-X (\w+)", curl)
    assert method == (
        given[1] if given else "POST" if " -d " in curl and "-G" not in curl else "GET"
    )


def test_a_field_of_one_of_two_bodies_is_not_required() -> None:
    block = KNOWN.block("schedules.md", "POST /schedule/cancel fields")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", block, re.MULTILINE))
    assert {"ids", "status"} <= rows.keys()
    assert [name for name, type_ in rows.items() if "required" in type_] == []
    assert "| list of objects, required |" in KNOWN.block("", "POST /schedule/batch fields")


def test_the_document_says_something_of_each_field_and_in_plain_english() -> None:
    silent, texts = [], list[str]()
    for where, each in described(KNOWN.document):
        text = each.get("description", "")
        texts.append(text)
        if not text and where.split("/")[-2] == "properties":
            silent.append(where)
    assert len(texts) > 500
    assert silent == []
    faulty = [fault for text in {*texts} for fault in english.faults(text)]
    assert faulty == [], "\n".join(faulty)


def described(value: Any, where: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The parts of the document that have a description, or should; not what an example has."""
    if isinstance(value, dict):
        if isinstance(value.get("description", ""), str) and (
            "type" in value or "description" in value
        ):
            yield where, value
        for key, each in value.items():
            if key not in ("example", "examples", "allOf"):
                yield from described(each, f"{where}/{key}")
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from described(each, f"{where}/{place}")


def test_the_tables_are_as_the_schema_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, text in PAGES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(reference, "PAGES", tmp_path)
    monkeypatch.setattr(sys, "argv", ["reference", "--check"])
    reference.main()
    page = tmp_path / "lanes.md"
    page.write_text(page.read_text().replace("1 to 10,000", "1 to 10,001"))
    with pytest.raises(SystemExit, match=r"lanes\.md"):
        reference.main()
    monkeypatch.setattr(sys, "argv", ["reference"])
    reference.main()
    assert page.read_text() == PAGES["lanes.md"]


def test_json_is_packed_into_lines_that_fit() -> None:
    value = {"a": 1, "b": {"c": ["x" * 30] * 4, "d": None}, "e": []}
    packed = reference.packed(value, width=60)
    assert max(map(len, packed.splitlines())) <= 60
    assert packed.splitlines()[:2] == ["{", '  "a": 1,']
    assert json.loads(packed) == value
