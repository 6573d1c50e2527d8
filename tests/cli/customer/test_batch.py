"""`postdate batch`: a file of schedules."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.customer.batch import BatchLine, chunks
from cli.main import main
from cli.output import NO_ANSWER
from tests.support.customer import in_days
from tests.support.servers import Customer, postdate, postdate_json

TARGET = "http://127.0.0.1:9999/batch"


def line(**fields: Any) -> str:
    payload = {"targetUrl": TARGET, "triggerAt": in_days(1).isoformat()} | fields
    return json.dumps(payload)


def test_every_line_is_stored_as_it_stands(settings: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "many.jsonl"
    file.write_text(f'{line()[:-1]}, "targetBody": {{"n": 1.50}}}}\n\n  {line()}  \r\n{line()}')
    done = postdate("batch", str(file), **settings)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3 scheduled, 0 refused\n", "")
    with Customer(settings["url"], settings["api_key"]) as customer:
        listed = customer.get("/schedule").text
    assert '"targetBody":{"n": 1.50}' in listed or '"targetBody":{"n":1.50}' in listed


def test_standard_input_and_answers_for_machines(settings: dict[str, str]) -> None:
    text = "\n".join([line(), "{", "[]", line(triggerAt="never", targetMethod="x"), line()])
    done = postdate("batch", "-", "--json", stdin=text, **settings)
    assert done.returncode == 1
    first, no_json, no_object, refused, last = map(json.loads, done.stdout.splitlines())
    assert set(first) == {"line", "scheduleId", "invocationId", "triggerAt"}
    assert no_json == {"line": 2, "error": "It is not JSON.", **NO_ANSWER}
    assert no_object["error"] == "It is not a JSON object."
    assert (refused["line"], refused["status"]) == (4, 400)
    assert {each["field"] for each in refused["details"]} == {"triggerAt", "targetMethod"}
    assert last["line"] == 5
    assert len(postdate_json("list", **settings)) == 2


def test_lines_of_one_that_waits_already_are_counted_apart(settings: dict[str, str]) -> None:
    text = "\n".join([line(reference="order-17", onExisting="replace")] * 3)
    done = postdate("batch", "-", "--json", stdin=text, **settings)
    first, *others = map(json.loads, done.stdout.splitlines())
    assert "existing" not in first
    assert [each["existing"] for each in others] == [True, True]
    again = postdate("batch", "-", stdin=f"{text}\n{line()}", **settings)
    assert (again.returncode, again.stdout) == (0, "1 scheduled, 3 waited already, 0 refused\n")


def test_a_refusal_names_its_line_keeps_nothing_back_and_of_many_some_are_told(
    settings: dict[str, str],
) -> None:
    text = "\n".join([line(), "nonsense", line(targetUrl="x"), line(), *["x"] * 50])
    done = postdate("batch", "-", stdin=text, **settings)
    assert (done.returncode, done.stdout) == (1, "2 scheduled, 52 refused\n")
    second, third, *_ = done.stderr.splitlines()
    assert second == "Line 2: It is not JSON."
    assert third.startswith("Line 3: targetUrl: ")
    assert done.stderr.count("Line ") == 20
    assert "--json tells all" in done.stderr


def test_where_the_credits_end_it_stops(settings: dict[str, str]) -> None:
    done = postdate("batch", "-", stdin=f"{line()}\n" * 1500, **settings)
    assert (done.returncode, done.stdout) == (1, "10 scheduled, 990 refused\n")
    assert done.stderr.splitlines() == [
        "Line 11: Insufficient credits.",
        "The credits have ended: what follows is not sent.",
    ]


def test_the_same_file_again_stores_nothing_twice(settings: dict[str, str]) -> None:
    text = f"{line()}\n" * 4
    for _ in range(2):
        done = postdate("batch", "-", "--idempotency-key", "file-1", stdin=text, **settings)
        assert (done.returncode, done.stdout) == (0, "4 scheduled, 0 refused\n")
    assert len(postdate_json("list", **settings)) == 4


def test_what_is_too_large_is_refused_by_itself(settings: dict[str, str]) -> None:
    large = line(targetBody={"x": "y" * (17 * 1024 * 1024)})
    done = postdate("batch", "-", stdin=f"{line()}\n{large}\n{line()}\n", **settings)
    assert (done.returncode, done.stdout) == (1, "2 scheduled, 1 refused\n")
    assert done.stderr.startswith("Line 2: ")


def test_an_interruption_tells_the_key_to_go_on_with(settings: dict[str, str]) -> None:
    wrong = settings | {"api_key": "pd_00_x"}
    done = postdate("batch", "-", stdin=line(), **wrong)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Stopped at line 1" in done.stderr
    assert "--idempotency-key " in done.stderr
    assert done.stderr.endswith("Invalid or inactive API key.\n")


def test_ctrl_c_between_two_calls_tells_it_too(
    settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def two(_file: object, _lane: object) -> Iterator[list[BatchLine]]:
        yield [BatchLine(number, line().encode(), None) for number in (1, 2)]
        raise KeyboardInterrupt

    monkeypatch.setattr("cli.customer.batch.chunks", two)
    words = ["batch", "-", "--url", settings["url"], "--api-key", settings["api_key"]]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 1
    assert done.stderr.startswith("Stopped at line 3, with 2 scheduled before it. To go on, give")


def test_a_file_falls_into_the_same_calls_each_time() -> None:
    many = b"{}\n" * 2500
    assert [len(each) for each in chunks(io.BytesIO(many))] == [1000, 1000, 500]
    assert [each[0].number for each in chunks(io.BytesIO(b"\n" + many))] == [2, 1002, 2002]
    large = b'{"a": "' + b"x" * 600_000 + b'"}\n'
    assert [len(each) for each in chunks(io.BytesIO(large * 3))] == [1, 1, 1]
    assert [len(each) for each in chunks(io.BytesIO(b"{}\n" + large + b"{}\n"))] == [3]


def test_lines_of_a_batch_that_name_no_lane_get_one(settings: dict[str, str]) -> None:
    text = f"{line()}\n{line(lane='own')}\n{{}}\n"
    done = postdate("batch", "-", "--lane", "all", stdin=text, **settings)
    assert done.stdout == "2 scheduled, 1 refused\n"
    for lane in ("all", "own"):
        assert len(postdate_json("list", "--lane", lane, **settings)) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"n": 1.50}\r\n', b'{"lane": "x", "n": 1.50}'),
        (b" { } \n", b'{"lane": "x" }'),
        (b'{"lane": null, "n": 1}', b'{"lane": null, "n": 1}'),
    ],
)
def test_what_a_line_says_itself_stays(text: bytes, expected: bytes) -> None:
    item = BatchLine(1, text, None, "x").item
    assert item == expected
    json.loads(item)
