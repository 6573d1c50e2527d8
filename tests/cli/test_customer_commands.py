"""`postdate schedule`, `cancel`, `logs`, `stats`: what they send, print and refuse."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from cli.main import main
from cli.schedule import Duration
from tests import children
from tests.servers import (
    PostdateProcess,
    Receiver,
    environment,
    free_port,
    in_days,
    postdate,
    postdate_json,
    postdate_process,
    until,
)


@pytest.fixture
def settings(postdate_up: PostdateProcess) -> dict[str, str]:
    return {"url": postdate_up.base_url, "api_key": postdate_up.api_key}


def scheduled(settings: dict[str, str], *arguments: str) -> str:
    made = postdate_json("schedule", *arguments, **settings)
    assert set(made) == {"scheduleId", "invocationId", "message", "replayed"}
    return str(made["scheduleId"])


def test_a_schedule_is_sent_as_it_was_said(settings: dict[str, str], receiver: Receiver) -> None:
    done = postdate_process(
        "schedule", receiver.url + "/hook?a=1", "--in", "200ms", "--method", "put",
        "--header", "X-A: 1:2", "--header", "X-B:3", "--body", '{"n": [1, "ü"]}',
        **settings,
    )  # fmt: skip
    assert re.fullmatch(r"sch_\w{26}  Scheduled for \d{4}-\d\d-\d\dT[\d:.]+Z\n", done.stdout)
    [received] = receiver.wait_for(1, "/hook")
    assert (received.method, received.path) == ("PUT", "/hook?a=1")
    assert json.loads(received.body) == {"n": [1, "ü"]}
    assert (received.headers["x-a"], received.headers["x-b"]) == ("1:2", "3")


def test_a_body_may_come_from_a_file(
    settings: dict[str, str], receiver: Receiver, tmp_path: Path
) -> None:
    (tmp_path / "body.json").write_text('{"n": 1}')
    scheduled(settings, receiver.url + "/b", "--in", "0s", "--body", f"@{tmp_path}/body.json")
    [received] = receiver.wait_for(1, "/b")
    assert (received.method, json.loads(received.body)) == ("POST", {"n": 1})


def test_at_and_the_same_key_twice(settings: dict[str, str]) -> None:
    day = f"{in_days(40):%Y-%m-%d}"
    arguments = ("http://127.0.0.1:9/", "--at", f"{day}T00:00Z", "--idempotency-key", "k")
    first = postdate_json("schedule", *arguments, **settings)
    again = postdate_json("schedule", *arguments, **settings)
    assert first["message"] == f"Scheduled for {day}T00:00:00.000Z"
    assert again == {**first, "replayed": True}
    postdate_json("cancel", first["scheduleId"], **settings)


def test_cancel_logs_and_stats(settings: dict[str, str]) -> None:
    before = postdate_json("stats", **settings)
    target = f"http://127.0.0.1:{free_port()}/refused"
    schedule_id = scheduled(settings, target, "--in", "1d")
    [waiting] = postdate_json("logs", "--target", target, **settings)
    assert (waiting["scheduleId"], waiting["status"]) == (schedule_id, "scheduled")
    cancelled = postdate_json("cancel", schedule_id, **settings)
    assert cancelled == {
        "scheduleId": schedule_id,
        "creditsRemaining": before["creditsRemaining"],
        "message": cancelled["message"],
        "status": "cancelled",
    }

    failing = scheduled(settings, target, "--in", "0s")
    until(lambda: postdate_json("logs", "--status", "failed", "--target", target, **settings))
    done = postdate("logs", "--target", target, "--limit", "1", "--status", "failed", **settings)
    assert re.fullmatch(
        rf"\S+Z  failed       -  +\d+ ms  GET {target}  {failing}  Connection refused\n",
        done.stdout,
    )
    after = postdate_json("stats", **settings)
    assert after["failedInvocations"] == before["failedInvocations"] + 1
    assert after["creditsRemaining"] == before["creditsRemaining"] - 1
    assert set(after["timeRange"]) == {"from", "to"}
    told = postdate("stats", **settings).stdout
    assert re.fullmatch(
        r"[\d,]+ executed from \S+Z to \S+Z\n"
        r"[\d,]+ completed, [\d,]+ failed, [\d,.]+ ms on average\n"
        r"999,\d{3} credits left\n",
        told,
    )


def test_an_empty_log_says_so(settings: dict[str, str]) -> None:
    nothing = ("logs", "--target", "http://never.example/")
    assert postdate(*nothing, **settings).stdout == "No entries.\n"
    assert postdate_json(*nothing, **settings) == []


class Following:
    """`postdate logs --follow` as it runs."""

    def __init__(self, *arguments: str, **settings: object) -> None:
        self._process = children.start(
            [sys.executable, "-P", "-m", "cli.main", "logs", "--follow", "--json", *arguments],
            env=environment(**settings),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.entries: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self.entries.append(json.loads(line))

    def end(self) -> tuple[int, str]:
        """As Ctrl-C does; exit status and stderr."""
        self._process.send_signal(signal.SIGINT)
        try:
            status = self._process.wait(30)
        finally:
            self._process.kill()
            self._reader.join(30)
        assert self._process.stdout
        assert self._process.stderr
        with self._process.stdout, self._process.stderr:
            return status, self._process.stderr.read()


def test_follow_shows_what_ends_once_and_in_order(settings: dict[str, str]) -> None:
    target = f"http://127.0.0.1:{free_port()}/follow"

    def ended(number: int) -> list[str]:
        entries = postdate_json("logs", "--target", target, "--status", "failed", **settings)
        return [e["scheduleId"] for e in reversed(entries)] if len(entries) == number else []

    for number in (1, 2, 3):
        scheduled(settings, target, "--in", "0s")
        until(lambda number=number: ended(number), f"{number} ended")
    old = ended(3)
    follower = Following("--target", target, "--limit", "2", **settings)
    try:
        until(lambda: len(follower.entries) == 2, "the last two")
        waiting = scheduled(settings, target, "--in", "1d")
        new = scheduled(settings, target, "--in", "0s")
        until(lambda: len(follower.entries) == 3, "the new one")
        postdate_json("cancel", waiting, **settings)
        until(lambda: len(follower.entries) == 4, "the cancelled one")
    finally:
        assert follower.end() == (0, "")
    shown = [(each["scheduleId"], each["status"]) for each in follower.entries]
    assert shown == [
        (old[1], "failed"),
        (old[2], "failed"),
        (new, "failed"),
        (waiting, "cancelled"),
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("cancel", "sch_x"), "There is no such schedule."),
        (
            ("schedule", "ftp://x", "--at", "never"),
            "targetUrl: It must be an absolute http or https URL; triggerAt: It must be",
        ),
        (("logs", "--from", "never"), "from: It must be"),
    ],
)
def test_a_refusal_is_one_sentence(
    settings: dict[str, str], arguments: tuple[str, ...], sentence: str
) -> None:
    done = postdate(*arguments, **settings)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(sentence)
    assert re.fullmatch(r"[^\n]+\.\n", done.stderr)
    as_json = postdate(*arguments, "--json", **settings)
    assert (as_json.returncode, as_json.stdout) == (1, "")
    assert json.loads(as_json.stderr) == {"error": done.stderr.strip()}


def test_without_a_key_it_says_how_to_get_one() -> None:
    done = postdate("stats")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "There is no API key: set POSTDATE_API_KEY or give --api-key."
        " `postdate key create default --name mine` makes one where Postdate runs.\n"
    )


def test_a_wrong_key_and_a_wrong_address_are_one_sentence(postdate_up: PostdateProcess) -> None:
    done = postdate("stats", "--url", postdate_up.base_url, "--api-key", "pd_00_x")
    assert (done.returncode, done.stderr) == (1, "Invalid or inactive API key.\n")
    url = f"http://127.0.0.1:{free_port()}"
    done = postdate("stats", url=url, api_key="pd_00_x")
    assert done.returncode == 1
    assert done.stderr == (
        f"{url} cannot be reached: Connection refused;"
        " start `postdate up`, or say where Postdate is with --url.\n"
    )
    done = postdate("stats", url="localhost", api_key="pd_00_x")
    assert done.returncode == 1
    assert re.fullmatch(r"The address of a Postdate [^\n]+ not like 'localhost'\.\n", done.stderr)


@pytest.mark.parametrize(
    "arguments",
    [
        ("schedule", "http://x"),
        ("schedule", "http://x", "--in", "1s", "--at", "2099-01-01"),
        ("schedule", "http://x", "--in", "soon"),
        ("schedule", "http://x", "--in", "1s", "--body", "{"),
        ("schedule", "http://x", "--in", "1s", "--body", "[]"),
        ("schedule", "http://x", "--in", "1s", "--body", "@/no/such/file"),
        ("schedule", "http://x", "--in", "1s", "--header", "X-A"),
        ("logs", "--limit", "0"),
        ("logs", "--follow", "--order", "asc"),
        ("logs", "--follow", "--status", "scheduled"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, [*arguments, "--api-key", "pd_00_x"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: ")


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("10s", timedelta(seconds=10)),
        ("500ms", timedelta(milliseconds=500)),
        ("1.5h", timedelta(minutes=90)),
        ("1h30m", timedelta(minutes=90)),
        ("2d", timedelta(days=2)),
        ("0s", timedelta()),
    ],
)
def test_durations(text: str, span: timedelta) -> None:
    assert Duration().convert(text, None, None) == span


@pytest.mark.parametrize("text", ["", "10", "s", "10 s", "-1s", "10s!", "1e3s", "9" * 30 + "d"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Duration().convert(text, None, None)


@pytest.mark.parametrize("words", ["schedule", "cancel", "logs", "stats", "listen"])
def test_help_teaches(words: str) -> None:
    done = CliRunner().invoke(main, [words, "--help"])
    assert done.exit_code == 0
    assert len(done.stdout.splitlines()) > 8
