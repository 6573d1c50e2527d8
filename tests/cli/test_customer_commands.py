"""`postdate schedule`, `cancel`, `logs`, `stats`: what they send, print and refuse."""

from __future__ import annotations

import json
import re
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from cli.main import main
from cli.parameters import duration, moment
from tests.cli.running import Running
from tests.client.line import Line, answer
from tests.servers import (
    PostdateProcess,
    Receiver,
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


def test_a_schedule_is_sent_as_it_was_said(
    settings: dict[str, str], receiver: Receiver, tmp_path: Path
) -> None:
    (tmp_path / "body.json").write_text('{"n": [1, "ü"]}')
    done = postdate_process(
        "schedule", receiver.url + "/hook?a=1", "--in", "200ms", "--method", "put",
        "--header", "X-A: 1:2", "--header", "X-B:3", "--body", f"@{tmp_path}/body.json",
        **settings,
    )  # fmt: skip
    assert re.fullmatch(r"sch_\w{26}  Scheduled for \d{4}-\d\d-\d\dT[\d:.]+Z\n", done.stdout)
    [received] = receiver.wait_for(1, "/hook")
    assert (received.method, received.path) == ("PUT", "/hook?a=1")
    assert json.loads(received.body) == {"n": [1, "ü"]}
    assert (received.headers["x-a"], received.headers["x-b"]) == ("1:2", "3")


def test_a_delay_is_told_to_the_server_as_one(settings: dict[str, str]) -> None:
    arguments = ("http://127.0.0.1:9999/", "--delay", "40d", "--idempotency-key", "delayed")
    first = postdate_json("schedule", *arguments, **settings)
    assert first["message"].startswith(f"Scheduled for {in_days(40):%Y-%m-%d}")
    # By a time of this machine's making it would be another request, under the same key.
    assert postdate_json("schedule", *arguments, **settings) == {**first, "replayed": True}
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
        "statusCode": None,
        "responseTimeMs": None,
        "errorMessage": None,
        "attempts": 0,
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
        rf"{after['creditsRemaining']:,} credits left\n",
        told,
    )


def test_several_are_cancelled_and_each_is_told(settings: dict[str, str]) -> None:
    target = f"http://127.0.0.1:{free_port()}/several"
    first, second = (scheduled(settings, target, "--in", "1d") for _ in range(2))
    done = postdate("cancel", first, second, **settings)
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [
        [first, "Cancelled"],
        [second, "Cancelled"],
    ]
    again = postdate("cancel", first, second, **settings)
    assert again.returncode == 1
    assert again.stderr == "2 of 2 could not be cancelled.\n"
    assert f"{first}  The schedule is cancelled already\n" in again.stdout


def test_what_failed_is_replayed(settings: dict[str, str]) -> None:
    target = f"http://127.0.0.1:{free_port()}/replayed"
    failed = scheduled(settings, target, "--in", "0s")
    listed = ("logs", "--status", "failed", "--target", target)
    until(lambda: postdate_json(*listed, **settings))
    chosen = ("replay", "--failed", "--since", "1h", "--target", target)
    asked = postdate(*chosen, **settings)
    assert asked.returncode == 1
    assert "Replay 1 that failed, for a credit each?" in asked.stderr
    done = postdate(*chosen, "--yes", **settings)
    assert re.fullmatch(rf"(sch_\w{{26}})  Replay of {failed}\n", done.stdout)
    until(lambda: len(postdate_json(*listed, **settings)) == 2)
    refused = postdate("replay", failed, **settings)
    assert refused.returncode == 1
    assert refused.stdout == f"{failed}  The schedule was replayed already\n"
    assert refused.stderr == "1 of 1 could not be replayed.\n"
    [again] = postdate_json("replay", done.stdout.split()[0], **settings)
    assert again["replayOf"] == done.stdout.split()[0]


def test_an_empty_log_says_so(settings: dict[str, str]) -> None:
    nothing = ("logs", "--target", "http://never.example/")
    assert postdate(*nothing, **settings).stdout == "No entries.\n"
    assert postdate_json(*nothing, **settings) == []


class Following(Running):
    """`postdate logs --follow` as it runs."""

    def __init__(self, *arguments: str, **settings: object) -> None:
        super().__init__("logs", "--follow", "--json", *arguments, **settings)

    @property
    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


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


ONE = ("schedule", "http://x", "--in", "1s")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (ONE[:2], "Say when"),
        ((*ONE, "--at", "2099-01-01"), "Say when"),
        ((*ONE, "--delay", "5s"), "Say when"),
        ((*ONE[:3], "soon"), "Invalid value"),
        ((*ONE, "--body", "@/no/such/file"), "cannot be read: No such file"),
        ((*ONE, "--data", "@/no/such/file"), "cannot be read: No such file"),
        ((*ONE, "--body", "{"), "--text sends any text, --data any bytes"),
        ((*ONE, "--body", "[1,2]"), "--text sends any text, --data any bytes"),
        ((*ONE, "--body", '"text"'), "--text sends any text, --data any bytes"),
        ((*ONE, "--text", "a", "--base64", "AA=="), "Give one body"),
        ((*ONE, "--base64", "A"), "is not base64"),
        ((*ONE, "--header", "X-A"), "Invalid value"),
        (("logs", "--limit", "0"), "Invalid value"),
        (("logs", "--follow", "--order", "asc"), "--follow goes with"),
        (("logs", "--follow", "--status", "scheduled"), "--follow goes with"),
        (("replay",), ""),
        (("replay", "sch_1", "--failed"), ""),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(arguments: tuple[str, ...], says: str) -> None:
    done = CliRunner().invoke(main, [*arguments, "--api-key", "pd_00_x"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: ")
    assert says in done.stderr


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("10s", timedelta(seconds=10)),
        ("500ms", timedelta(milliseconds=500)),
        ("1.5h", timedelta(minutes=90)),
        ("1h30m", timedelta(minutes=90)),
        ("2d", timedelta(days=2)),
        ("0s", timedelta()),
        ("10", timedelta(seconds=10)),
        ("0.5", timedelta(milliseconds=500)),
    ],
)
def test_durations(text: str, span: timedelta) -> None:
    assert duration(text) == span


@pytest.mark.parametrize(
    "text", ["", "s", "10 s", "10 5s", "1.", "-1s", "10s!", "1e3s", "9" * 30 + "d"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(click.BadParameter):
        duration(text)


@pytest.mark.parametrize(
    ("text", "as_sent"),
    [
        ("2026-12-24 18:00", "2026-12-24T18:00:00+01:00"),
        ("2026-12-24T18:00:01.5", "2026-12-24T18:00:01.500000+01:00"),
        ("2026-11-01", "2026-11-01T00:00:00+01:00"),
        ("2026-07-01", "2026-07-01T00:00:00+02:00"),
        ("2026-12-24T18:00Z", "2026-12-24T18:00Z"),
        ("2026-12-24 18:00+05:00", "2026-12-24 18:00+05:00"),
        ("never", "never"),
    ],
)
def test_a_moment_without_a_zone_is_this_machines(
    monkeypatch: pytest.MonkeyPatch, text: str, as_sent: str
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        assert moment(text) == as_sent
    finally:
        monkeypatch.undo()
        time.tzset()


def test_moments_in_the_local_zone_reach_the_api(
    settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From processes of their own: the zone of this one stays."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    at = ("--at", "2027-01-01 18:00", "--json")
    done = postdate_process("schedule", "http://127.0.0.1:9999/tz", *at, **settings)
    assert json.loads(done.stdout)["message"] == "Scheduled for 2027-01-01T09:00:00.000Z"
    counted = postdate_process("stats", "--from", "2026-11-01", "--json", **settings)
    assert json.loads(counted.stdout)["timeRange"]["from"] == "2026-10-31T15:00:00.000Z"
    assert "this machine's (JST)" in " ".join(postdate_process("schedule", "--help").stdout.split())


@pytest.mark.parametrize(
    ("words", "status", "body", "told"),
    [
        ("cancel sch_x", 404, b"<html>", " (404 Reason)"),
        ("stats", 200, b"<html>", ""),
        ("logs", 200, b'{"logs": 1}', ""),
        ("schedule u --in 1", 501, b"<html>", ""),
    ],
)
def test_a_stranger_who_answers_is_one_sentence(
    words: str, status: int, body: bytes, told: str
) -> None:
    with Line(answer(status, body)) as stranger:
        url = stranger.url
        done = postdate(*words.split(), url=url, api_key="pd_00_x")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{url} answers, but not as Postdate does{told}")
    assert done.stderr.endswith("; say where Postdate is with --url.\n")
    assert done.stderr.count("\n") == 1


def test_retries_are_asked_for_shown_changed_and_stopped(
    settings: dict[str, str], receiver: Receiver
) -> None:
    target = receiver.answer("/hook", status=503)
    schedule_id = scheduled(
        settings, target, "--in", "0s", "--retries", "5", "--retry-delays", "1h, 90s"
    )
    until(lambda: postdate_json("logs", "--status", "retrying", "--target", target, **settings))
    shown = postdate("get", schedule_id, **settings).stdout
    assert re.search(r"^retries +5$", shown, re.MULTILINE)
    assert re.search(r'^retryDelays +\["1h", "1m30s"\]$', shown, re.MULTILINE)
    assert re.search(r"^attempts +1$", shown, re.MULTILINE)
    assert re.search(r"^nextAttemptAt +20\S+Z$", shown, re.MULTILINE)
    listed = postdate("list", "--limit", "500", **settings).stdout
    assert f"{schedule_id}  attempt 2, after Service Unavailable" in listed
    logged = postdate("logs", "--status", "retrying", "--target", target, **settings).stdout
    assert re.search(
        rf"retrying +503 .* {schedule_id}  Service Unavailable  attempt 2 at 20", logged
    )
    changed = postdate_json("change", schedule_id, "--clear", "retry-delays", **settings)
    assert (changed["retries"], changed["retryDelays"]) == (5, None)
    stopped = postdate("cancel", schedule_id, **settings).stdout
    assert f"{schedule_id}  Stopped after 1 attempt; no credit was refunded" in stopped
    found = postdate_json("get", schedule_id, **settings)
    assert (found["status"], found["statusCode"], found["attempts"]) == ("failed", 503, 1)


def test_signing_secrets_are_shown_and_rotated(settings: dict[str, str]) -> None:
    [before, *_] = postdate_json("signing", "show", **settings)
    done = postdate("signing", "rotate", "--keep-for", "1d", **settings)
    new, old, *_ = postdate_json("signing", "show", **settings)
    assert old["secretId"] == before["secretId"]
    assert f"{new['secretId']}  {new['secret']}  since " in done.stdout
    done = postdate("signing", "rotate", "--keep-for", "8d", **settings)
    assert (done.returncode, "at most 7 days" in done.stderr) == (1, True)


def test_what_strangers_wrote_does_not_speak_to_the_terminal(settings: dict[str, str]) -> None:
    url = "http://example.com/\u202egpj.exe?\u00ad"
    made = scheduled(settings, url, "--in", "1h", "--header", "X-A: \u00ad")
    for words in (("list",), ("get", made), ("logs", "--target", url)):
        plain, as_json = (postdate(*words, *more, **settings).stdout for more in ((), ("--json",)))
        assert "http://example.com/\\u202egpj.exe?\\u00ad" in plain
        assert not set("\u202e\u00ad") & set(plain + as_json)
        assert url in json.dumps(json.loads(as_json), ensure_ascii=False)
    header = ("--header", "X-\u202e\u009b: 1")
    refused = postdate("schedule", "http://h/", "--in", "1h", *header, **settings)
    assert refused.returncode == 1
    assert not set("\u202e\u009b") & set(refused.stderr)
    assert "\\u202e" in refused.stderr
