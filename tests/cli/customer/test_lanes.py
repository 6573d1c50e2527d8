"""`postdate lane`, and `--lane` of the other commands."""

from __future__ import annotations

import json
import re
from secrets import token_hex

import pytest

from cli.customer.batch import BatchLine
from tests.support.servers import PostdateProcess, postdate, postdate_json, refusing_port, until

TARGET = "http://127.0.0.1:9999/lanes"
_MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@pytest.fixture
def settings(postdate_up: PostdateProcess) -> dict[str, str]:
    """Of an account of its own."""
    up, name = postdate_up, f"lanes {token_hex(4)}"
    create = ("account", "create", name, "--credits", "100", "--plan", "unlimited")
    postdate_json(*create, data_dir=up.data_dir)
    key = postdate_json("key", "create", name, "--name", "deploys", data_dir=up.data_dir)["key"]
    return {"url": up.base_url, "api_key": key}


def said(settings: dict[str, str], *arguments: str) -> str:
    done = postdate(*arguments, **settings)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_lane_is_set_shown_and_cleared(settings: dict[str, str]) -> None:
    assert said(settings, "lane", "list") == "No lanes.\n"
    limits = ("--rate", "100", "--per", "1m", "--burst", "10", "--parallelism", "5")
    made = said(settings, "lane", "set", "acme", *limits, "--note", "as agreed")
    told = "acme  open     100 per 1m, burst 10, 5 at a time  0 running, 0 waiting  as agreed\n"
    assert made == said(settings, "lane", "show", "acme") == said(settings, "lane", "list") == told
    shown = postdate_json("lane", "show", "acme", **settings)
    assert (shown["rate"], shown["per"], shown["parallelism"]) == (100, "1m", 5)
    [listed] = postdate_json("lane", "list", **settings)
    assert {**listed, "etag": None} == {**shown, "etag": None}

    assert "  5 at a time  " in said(settings, "lane", "set", "acme", "--parallelism", "5")
    assert said(settings, "lane", "clear", "acme") == "acme  Cleared; nothing waits in it\n"
    assert said(settings, "lane", "list") == "No lanes.\n"
    assert said(settings, "lane", "show", "acme").startswith("acme  open     no limits  ")


def test_a_paused_lane_keeps_what_is_due(settings: dict[str, str]) -> None:
    pause = ("lane", "pause", "acme", "--for", "1d", "--note", "they move house")
    paused = said(settings, *pause).splitlines()
    assert paused[0].startswith("acme  paused   no limits  ")
    assert re.fullmatch(rf"    paused by deploys until {_MOMENT}: they move house", paused[1])
    target = f"http://127.0.0.1:{refusing_port()}/refused"
    made = postdate_json("schedule", target, "--in", "0s", "--lane", "acme", **settings)
    waits = said(settings, "lane", "show", "acme")
    assert re.search(rf"  0 running, 1 waiting, 1 due since {_MOMENT}\n", waits)
    [line] = said(settings, "list", "--lane", "acme").splitlines()
    assert line.endswith(f"{made['scheduleId']}  in acme")
    assert said(settings, "list", "--lane", "other") == "Nothing waits.\n"

    assert "paused" not in said(settings, "lane", "resume", "acme", "--calm")
    until(lambda: postdate_json("logs", "--status", "failed", "--lane", "acme", **settings))
    [entry] = said(settings, "logs", "--lane", "acme").splitlines()
    assert f"{made['scheduleId']}  in acme  Connection refused" in entry
    again = said(settings, "replay", "--lane", "acme", "--yes")
    assert again.endswith(f"  Replay of {made['scheduleId']}\n")
    assert postdate_json("get", again.split()[0], **settings)["lane"] == "acme"


def test_everything_is_paused_and_resumed(settings: dict[str, str]) -> None:
    paused = said(settings, "lane", "pause", "--all", "--note", "audit")
    assert paused == said(settings, "lane", "show", "--all")
    assert paused == "all schedules  paused by deploys: audit\n"
    assert said(settings, "lane", "list") == paused
    assert said(settings, "lane", "show", "a").startswith(f"{paused}a  open ")
    assert postdate_json("lane", "show", "--all", **settings)["paused"] is True
    assert said(settings, "lane", "resume", "--all") == "all schedules  not paused\n"


def test_a_lane_is_changed_and_all_in_it_are_cancelled(settings: dict[str, str]) -> None:
    made = postdate_json("schedule", TARGET, "--in", "1d", "--lane", "a", **settings)["scheduleId"]
    assert postdate_json("change", made, "--lane", "b", **settings)["lane"] == "b"
    assert postdate("cancel", "--lane", "b", **settings).stderr.startswith("Cancel 1 that wait?")
    assert postdate_json("change", made, "--clear", "lane", **settings)["lane"] is None
    assert postdate_json("cancel", "--lane", "b", "--yes", **settings) == []
    postdate_json("change", made, "--lane", "a", **settings)
    [cancelled] = postdate_json("cancel", "--lane", "a", "--yes", **settings)
    assert cancelled["scheduleId"] == made


def test_lines_of_a_batch_that_name_no_lane_get_one(settings: dict[str, str]) -> None:
    line = f'{{"targetUrl": "{TARGET}", "delay": "1d"}}'
    own = line[:-1] + ', "lane": "own"}'
    done = postdate("batch", "-", "--lane", "all", stdin=f"{line}\n{own}\n{{}}\n", **settings)
    assert done.stdout == "2 scheduled, 1 refused\n"
    assert len(postdate_json("list", "--lane", "all", **settings)) == 1
    assert len(postdate_json("list", "--lane", "own", **settings)) == 1


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


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["pause"], "Give a lane, or --all."),
        (["resume", "acme", "--all"], "Give a lane, or --all."),
        (["resume", "--all", "--calm"], "--calm goes with a lane."),
        (["set", "acme"], "Give a limit; postdate lane clear removes all."),
        (["pause", "acme", "--for", "1h", "--until", "2030-01-01"], "Give one end"),
    ],
)
def test_a_wrong_call_says_what_is_missing(arguments: list[str], expected: str) -> None:
    done = postdate("lane", *arguments, url="http://127.0.0.1:1", api_key="pd_none")
    assert done.returncode == 2
    assert expected in done.stderr


def test_a_bad_setting_is_named(settings: dict[str, str]) -> None:
    done = postdate("lane", "set", "acme", "--rate", "5", **settings)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("rate: It needs per")
    assert postdate("lane", "show", "a b", **settings).stderr.startswith("lane must have letters")
