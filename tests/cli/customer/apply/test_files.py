"""What a file may say: the command and the JSON Schema refuse the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from cli.customer.apply.document import BadFiles, Document, read
from cli.customer.apply.schema import file_schema
from cli.customer.apply.wanted import Asked, asked_of
from scheduler.masks import MASK
from tests.support.servers import postdate

DOCUMENTS = Path(__file__).parents[4] / "docs"
FENCE = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SCHEMA = "$schema=postdate.schema.json"
GOOD = """\
owns: [billing-*, shared]
account: {callbackUrl: "https://example.com/ended", callbackOn: failed}
lanes:
  billing-partner: {rate: 100, per: 1s, burst: 10, note: "no: 1:30"}
  shared: {parallelism: 1, rate: null}
recurring:
  billing-report:
    cron: 0 9 * * mon-fri
    timeZone: Europe/Berlin
    targetUrl: https://example.com/report
    targetMethod: POST
    targetHeaders: {X-A: b}
    targetBody: {a: [1, 1.5, true, null, yes]}
    retries: 3
    retryDelays: [10, 1m]
    callbackUrl: null
    lane: billing-partner
  billing-poll: {every: 900, startsAt: 2026-12-01T00:00Z, targetUrl: "https://example.com/poll"}
"""
RULE: dict[str, object] = {"targetUrl": "https://x.org", "every": "1h"}
ONE_RULE = "recurring: {r: {targetUrl: 'https://x.org', every: 1h, %s}}"
NO_FIELD = "There is no such field."
WHOLE = "It must be a whole number."
NO_OWNS = "It must be a list of names"
NO_FIELDS = "It must have fields, each with a name."
# What both refuse: a file, the line and the field, and what is said.
BOTH = [
    ("[]", 1, "", NO_FIELDS),
    ("lane: {}", 1, "lane", NO_FIELD),
    ("lanes: []", 1, "lanes", NO_FIELDS),
    ("lanes:\n  a: {rate: 1, per: 1s}\n  b:", 3, "lanes.b", "It has no fields."),
    ("lanes: {a: {}}", 1, "lanes.a", "It has no fields."),
    ("lanes: {a: {rate: null}}", 1, "lanes.a", "It needs a rate, a parallelism or a note."),
    ("lanes: {a: [1]}", 1, "lanes.a", NO_FIELDS),
    ("lanes: {a b: {parallelism: 1}}", 1, "lanes.a b", "The name is not valid."),
    ("lanes: {a: {rate: '1', per: 1s}}", 1, "lanes.a.rate", WHOLE),
    ("lanes: {a: {rate: 1}}", 1, "lanes.a.rate", "It needs per."),
    ("lanes: {a: {per: 1s, note: x}}", 1, "lanes.a.per", "It needs rate."),
    ("lanes: {a: {burst: 2, note: x}}", 1, "lanes.a.burst", "It needs rate and per."),
    ("lanes: {a: {rate: 0, per: 1s}}", 1, "lanes.a.rate", "It must be from 1 to 100,000."),
    ("lanes: {a: {rate: 1, per: soon}}", 1, "lanes.a.per", "It must be a duration"),
    ("lanes: {a: {parallelism: 1, paused: true}}", 1, "lanes.a.paused", "PUT leaves it"),
    ("recurring: {r: {every: 1h}}", 1, "recurring.r.targetUrl", "It is required."),
    ("recurring: {r: {targetUrl: 'https://x.org'}}", 1, "recurring.r.cron", "Exactly one of"),
    (ONE_RULE % "cron: 0 9 * * *", 1, "recurring.r.cron", "Exactly one of"),
    (ONE_RULE % "name: r", 1, "recurring.r.name", "Its name is the one"),
    (ONE_RULE % "delay: 1h", 1, "recurring.r.delay", "A recurring schedule has none"),
    (ONE_RULE % "retries: 21", 1, "recurring.r.retries", "It must be from 0 to 20."),
    (ONE_RULE % "delivery: once", 1, "recurring.r.delivery", "It must be at-least-once or"),
    (ONE_RULE % "targetBody: [1]", 1, "recurring.r.targetBody", "It must be a JSON object"),
    (
        ONE_RULE % "targetBody: {}, targetBodyText: a",
        1,
        "recurring.r.targetBodyText",
        "Only one of",
    ),
    ("recurring:\n  r:\n    every: 1h\n    url: x", 4, "recurring.r.url", NO_FIELD),
    ("account: {}", 1, "account", "It has no fields."),
    ("account: {callbackOn: failed}", 1, "account.callbackUrl", "It is needed"),
    ("account:\n  callbackUrl: null\n  paused: true", 3, "account.paused", NO_FIELD),
    ("account: {callbackUrl: 1}", 1, "account.callbackUrl", "It must be a string"),
    ("owns: billing", 1, "owns", NO_OWNS),
    ("owns: []", 1, "owns", NO_OWNS),
    ("owns: [a, 'b**']", 1, "owns[1]", NO_OWNS),
    ("owns: ['']", 1, "owns[0]", NO_OWNS),
]
_NINE = ["x", *(f"*a{n}," * 9 for n in range(9))]  # each has the one before nine times
# What only the command can tell.
ALONE = [
    ("", 1, "", "It is empty."),
    ("a: [", 2, "", "It is not YAML: "),
    ("a: 1\n---\nb: 1", 2, "", "A second document begins here"),
    ("lanes: {a: {rate: !!int abc, per: 1s}}", 1, "", "'abc' is no value of the tag tag:yaml.org"),
    (ONE_RULE % "targetBody: {a: !!bool yes}", 1, "", "'yes' is no value of the tag"),
    (ONE_RULE % "targetBody: {a: !!float nan}", 1, "", "'nan' is no value of the tag"),
    ("lanes: {a: {rate: 1,\n rate: 2, per: 1s}}", 2, "lanes.a.rate", "It is there twice."),
    ("recurring:\n  r:\n    cron: * * * * *", 3, "", "Write a text that begins with * in quotes."),
    ("!!python/object:os.system {}", 1, "", "The tag tag:yaml.org,2002:python/object:os.system"),
    ("lanes: {a: {rate: 1e999, per: 1s}}", 1, "lanes.a.rate", "The number is too large."),
    ("lanes: {a: {note: '${UNSET}'}}", 1, "lanes.a.note", "The environment has no variable UNSET."),
    ("lanes: {a: {note: '${a b}'}}", 1, "lanes.a.note", "${ needs the name of a variable and }."),
    ("lanes: {a: {rate: 1, per: 1s, burst: 2}}", 1, "lanes.a.burst", "It may be at most the rate"),
    (
        ONE_RULE.replace("every: 1h", "cron: 0 0 30 2 *") % "",
        1,
        "recurring.r.cron",
        "This date never comes.",
    ),
    (
        f"account: {{callbackUrl: 'https://x.org/?token={MASK}'}}",
        1,
        "account.callbackUrl",
        "It has the mask",
    ),
    (
        ONE_RULE % f"targetHeaders: {{Authorization: {MASK}}}",
        1,
        "recurring.r.targetHeaders.Authorization",
        "Its value is the mask",
    ),
    (
        "owns: [a-*]\nlanes:\n  b: {parallelism: 1}",
        3,
        "lanes.b",
        "The file does not own this name.",
    ),
    ("a: " + "[" * 100_000, 1, "", "It is nested more than 64 deep."),
    ("a: &a [*a]", 1, "", "It is nested more than 64 deep."),
    ("\n".join(f"a{n}: &a{n} [{_NINE[n]}]" for n in range(7)), 1, "", "too many"),
]
FIRST_LINE = re.compile(r"too many|deep")


def documents(*texts: str) -> list[Document]:
    environment = {"TOKEN": "s3cret", "TEXT": "a: ${TOKEN}"}
    return [read(f"{n}.yaml", text.encode(), environment) for n, text in enumerate(texts)]


def asked(*texts: str) -> Asked:
    return asked_of(documents(*texts))


def refuses(schema: dict[str, Any], values: object) -> bool:
    return not Draft202012Validator(schema).is_valid(values)


@pytest.mark.parametrize(("text", "line", "field", "says"), BOTH, ids=range(len(BOTH)))
def test_the_command_and_the_schema_refuse_a_wrong_file(
    text: str, line: int, field: str, says: str
) -> None:
    text = text.replace(", }", "}")
    with pytest.raises(BadFiles) as bad:
        asked(text)
    first, *_ = [each for each in bad.value.faults if each.field == field] or bad.value.faults
    assert (first.place.line, first.field) == (line, field)
    assert first.message.startswith(says)
    assert refuses(file_schema(), documents(text)[0].values)


@pytest.mark.parametrize(("text", "line", "field", "says"), ALONE, ids=range(len(ALONE)))
def test_the_command_refuses_what_no_schema_can(
    text: str, line: int, field: str, says: str
) -> None:
    with pytest.raises(BadFiles) as bad:
        asked(text.replace(", }", "}"))
    first = bad.value.faults[0]
    assert says in first.message
    assert first.field == field
    assert first.place.line == line or FIRST_LINE.search(says)


def test_a_good_file_is_taken_by_both_and_judged_as_the_api_shows_it() -> None:
    Draft202012Validator.check_schema(file_schema())
    assert not refuses(file_schema(), documents(GOOD)[0].values)
    found = {(each.kind, each.name): each for each in asked(GOOD).wanted}
    assert found["lanes", "billing-partner"].shown["note"] == "no: 1:30"
    assert found["recurring", "billing-report"].shown["cron"] == "0 9 * * MON-FRI"
    body = found["recurring", "billing-report"].shown["targetBody"]
    assert json.dumps(body) == '{"a": [1, 1.5, true, null, "yes"]}'
    assert found["recurring", "billing-poll"].shown["every"] == "15m"


@pytest.mark.parametrize("text", ["{}", "lanes:", "owns:\nlanes: {}", "# none\n{}"])
def test_a_file_may_name_nothing(text: str) -> None:
    assert asked(text) == Asked([], [])
    assert not refuses(file_schema(), documents(text)[0].values)


def test_json_is_read_with_its_tabs_and_escapes() -> None:
    text = '{\n\t"lanes": {"a": {"note": "\\ud83d\\ude00 \\\\ud83d\\\\ude00", "parallelism": 1}}}'
    [wanted] = asked(text).wanted
    assert wanted.given["note"] == "\N{GRINNING FACE} \\ud83d\\ude00"
    assert wanted.place.line == 2
    body = {"a": "\x7f\x85\u2028\ufeff", "b": "\\u2028"}
    text = json.dumps({"recurring": {"r": RULE | {"targetBody": body}}}, ensure_ascii=False)
    [wanted] = asked(text).wanted
    assert wanted.given["targetBody"] == body


def test_a_variable_fills_a_text_and_nothing_else() -> None:
    text = "lanes: {a: {note: '${TEXT} $${TEXT} $TEXT', parallelism: 1}}"
    [wanted] = asked(text).wanted
    assert wanted.given["note"] == "a: ${TOKEN} ${TEXT} $TEXT"


def test_two_files_may_not_name_the_same() -> None:
    one = "lanes: {a: {parallelism: 1}}\naccount: {callbackUrl: null}"
    with pytest.raises(BadFiles) as bad:
        asked(one, one)
    assert [(each.place.file, each.field, each.message) for each in bad.value.faults] == [
        ("1.yaml", "lanes.a", "0.yaml:1 has it already."),
        ("1.yaml", "account", "0.yaml:2 has it already."),
    ]


def test_every_fault_is_told_with_its_file_and_line() -> None:
    done = postdate("apply", "-f", "-", stdin="lanes:\n  a: {rate: 1}\n  b:\n", api_key="pd_00_x")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "<stdin>:2: lanes.a.rate: It needs per.\n<stdin>:3: lanes.b: It has no fields.\n"
    )
    done = postdate("apply", "-f", "-", "--json", stdin="lanes: []", api_key="pd_00_x")
    [detail] = json.loads(done.stderr)["details"]
    assert detail == {"file": "<stdin>", "line": 1, "field": "lanes", "message": NO_FIELDS}
    done = postdate("apply", "-f", "-", stdin="x" * 1_048_577, api_key="pd_00_x")
    assert done.stderr == "<stdin>:1: It has more than 1,048,576 bytes.\n"


def test_the_command_prints_the_schema_without_a_key() -> None:
    done = postdate("apply", "--schema")
    assert done.returncode == 0
    assert json.loads(done.stdout) == json.loads(json.dumps(file_schema()))


def test_the_files_of_the_documents_fit_the_schema() -> None:
    pages = [path.read_text() for path in DOCUMENTS.rglob("*.md")]
    shown = [each for page in pages for each in FENCE.findall(page) if SCHEMA in each]
    assert shown
    for text in shown:
        assert not refuses(file_schema(), documents(text)[0].values), text
        assert asked(text).wanted
