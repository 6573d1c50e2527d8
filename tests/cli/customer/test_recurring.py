"""`postdate recurring`: what it asks for, prints and refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.client.line import Line, answer
from tests.client.test_recurring import CREATED, RULE
from tests.support.servers import postdate

NEXT = "2026-11-24T08:00:00.000Z"
LINE = (
    f"{NEXT}  active   At 09:00 on weekdays, Berlin  POST https://example.com/report"
    "  rec_1  report\n"
)
LISTED = answer(200, {"recurring": [RULE], "nextCursor": None})


def said(line: Line, *arguments: str) -> str:
    done = postdate("recurring", *arguments, url=line.url, api_key="pd_00_key")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    ("arguments", "asked", "body", "printed"),
    [
        (
            ["create", "https://example.com", "--every", "15m"],
            "POST /recurring",
            {**CREATED, "message": "Next at noon"},
            "rec_1  Next at noon\n",
        ),
        (
            ["create", "https://x.org", "--cron", "0 9 * * *", "--name", "a:b", "--or-change"],
            "PUT /recurring/by-name/a:b",
            RULE,
            LINE,
        ),
        (["pause", "rec_1"], "POST /recurring/rec_1/pause", RULE, LINE),
        (["resume", "rec_1"], "POST /recurring/rec_1/resume", RULE, LINE),
        (
            ["trigger", "rec_1"],
            "POST /recurring/rec_1/trigger",
            {"scheduleId": "sch_2", "invocationId": "inv_2", "triggerAt": NEXT, "message": "Now"},
            "sch_2  Now\n",
        ),
        (
            ["delete", "rec_1"],
            "DELETE /recurring/rec_1",
            {"recurringId": "rec_1", "creditsRemaining": 5, "message": "Deleted"},
            "rec_1  Deleted\n",
        ),
        (
            ["preview", "--cron", "0 9 * * *", "--time-zone", "Europe/Berlin"],
            "GET /recurring/preview?cron=0+9+%2A+%2A+%2A&timeZone=Europe%2FBerlin",
            {"next": [NEXT], "description": "At 09:00, Berlin"},
            f"At 09:00, Berlin\n{NEXT}  Tue 2026-11-24 09:00:00 CET\n",
        ),
    ],
)
def test_a_command_is_one_call(
    arguments: list[str], asked: str, body: dict[str, Any], printed: str
) -> None:
    with Line(answer(200, body)) as line:
        assert said(line, *arguments) == printed
    assert line.requests == [f"{asked} HTTP/1.1"]


def test_one_is_shown_by_its_name() -> None:
    with Line(LISTED, answer(200, RULE)) as line:
        shown = said(line, "show", "report").splitlines()
    assert line.requests[0].startswith("GET /recurring?name=report&")
    assert line.requests[1] == "GET /recurring/rec_1 HTTP/1.1"
    fields = dict(each.split(maxsplit=1) for each in shown)
    assert (fields["next"], fields["expiresAfter"]) == (f"{NEXT}, 2026-11-25T08:00:00.000Z", "1h")
    assert not fields.keys() & {"missed", "every", "reason"}


def test_they_are_listed_with_why_one_is_blocked() -> None:
    blocked = {**RULE, "state": "blocked", "reason": "Insufficient credits", "missed": 1200}
    page = {"recurring": [RULE, {**blocked, "nextAt": None, "name": None}], "nextCursor": None}
    with Line(answer(200, page)) as line:
        first, second = said(line, "list", "--state", "active").splitlines(keepends=True)
    assert first == LINE
    assert second.startswith("-                         blocked  At 09:00 ")
    assert second.endswith("  rec_1  Insufficient credits  1,200 missed\n")


def test_for_machines_it_prints_the_answer() -> None:
    with Line(answer(200, RULE)) as line:
        shown = json.loads(said(line, "show", "rec_1", "--json"))
    assert RULE.items() <= shown.items()


def test_its_log_says_what_was_missed() -> None:
    entry = {
        "invocationId": "",
        "scheduleId": "",
        "createdAt": NEXT,
        "scheduledAt": NEXT,
        "executedAt": None,
        "targetUrl": "https://example.com/report",
        "targetMethod": "POST",
        "status": "skipped",
        "statusCode": 0,
        "responseTimeMs": 0,
        "errorMessage": "",
        "recurringId": "rec_1",
        "missed": 1200,
    }
    with Line(answer(200, {"logs": [entry], "nextCursor": None})) as line:
        settings = {"url": line.url, "api_key": "pd_00_key"}
        logged = postdate("logs", "--recurring", "rec_1", "--status", "skipped", **settings)
        postdate("list", "--recurring", "rec_1", **settings)
    assert logged.stdout == f"{NEXT}  skipped    1,200 missed  rec_1\n"
    assert all("recurringId=rec_1" in each for each in line.requests)
    assert "status=skipped" in line.requests[0]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["create", "https://example.com"], "Say when, with --cron or --every."),
        (["preview", "--cron", "* * * * *", "--every", "1h"], "Say when, with --cron or --every."),
        (["create", "https://x", "--every", "1h", "--or-change"], "--or-change goes with --name"),
        (["change", "rec_1"], "Say what to change"),
        (["change", "rec_1", "--name", "x", "--clear", "name"], "given and cleared: name."),
    ],
)
def test_a_wrong_call_says_what_is_missing(arguments: list[str], expected: str) -> None:
    done = postdate("recurring", *arguments, url="http://127.0.0.1:1", api_key="pd_none")
    assert done.returncode == 2
    assert expected in done.stderr


def test_a_name_that_there_is_not_is_told() -> None:
    missing = {"error": "There is no such recurring schedule", "reason": "unknown_recurring"}
    with Line(answer(200, {"recurring": [], "nextCursor": None}), answer(404, missing)) as line:
        done = postdate("recurring", "pause", "other", url=line.url, api_key="pd_00_key")
    assert (done.returncode, done.stderr) == (1, "There is no such recurring schedule.\n")
