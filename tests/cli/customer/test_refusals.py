"""What a customer's commands refuse, and how they say that something is wrong."""

from __future__ import annotations

import re
import shlex
import time

import pytest
from click.testing import CliRunner

from cli.customer.remote import with_hint
from cli.main import main
from cli.parameters import content, moment
from tests.client.line import Line, answer
from tests.support.servers import postdate, refusing_port

ONE = "schedule http://x --in 1s"
NO_BODY = "--text sends any text, --data any bytes"
UNCLEAR = "Give ids, or --failed"
NO_TIME = "Say when, with --cron or --every."


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("schedule http://x", "Say when"),
        (f"{ONE} --delay 5s", "Say when"),
        ("schedule http://x --in soon", "Invalid value"),
        (f"{ONE} --body @/no/such/file", "cannot be read: No such file"),
        (f"{ONE} --body {{", NO_BODY),
        (f"{ONE} --body [1,2]", NO_BODY),
        (f"{ONE} --text a --base64 AA==", "Give one body"),
        (f"{ONE} --base64 A", "is not base64"),
        (f"{ONE} --header X-A", "Invalid value"),
        ("logs --follow --order asc", "--follow goes with"),
        ("replay sch_1 --failed", UNCLEAR),
        ("replay --since 1h", UNCLEAR),
        ("replay --from 2026-11-01", UNCLEAR),
        ("replay --failed --since 1h --from 2026-11-01", "Give --since or --from"),
        ("callback send sch_1 --failed", UNCLEAR),
        ("callback send --since 1h", UNCLEAR),
        ("callback send sch_1 sch_2 --callback http://x", "--callback goes with one id"),
        ("cancel sch_1 --target http://x", "Give ids, or --held, --target"),
        ("cancel --to 2026-12-24", "A period or a limit alone is not enough."),
        ("change sch_1", "Say what to change"),
        ("change sch_1 --text x --clear text", "cannot be given and cleared"),
        ("lane pause", "Give a lane, or --all."),
        ("lane resume acme --all", "Give a lane, or --all."),
        ("lane resume --all --calm", "--calm goes with a lane."),
        ("lane set acme", "Give a limit; postdate lane clear removes all."),
        ("lane pause acme --for 1h --until 2030-01-01", "Give one end"),
        ("recurring create https://x.org", NO_TIME),
        ("recurring preview --cron '* * * * *' --every 1h", NO_TIME),
        ("recurring create https://x.org --every 1h --or-change", "--or-change goes with --name"),
        ("recurring change rec_1", "Say what to change"),
        ("recurring change rec_1 --name x --clear name", "given and cleared: name."),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(words: str, says: str) -> None:
    done = CliRunner().invoke(main, [*shlex.split(words), "--api-key", "pd_00_x"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: ")
    assert says in done.stderr


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("get ID", "ID"),
        ("callback send ID", "ID"),
        ("lane show ID", "LANE"),
        ("recurring show ID", "ID"),
        ("recurring show rec_ID", "ID"),
        ("recurring delete ID", "ID"),
    ],
)
def test_what_is_no_id_is_sent_nowhere(command: str, name: str) -> None:
    # Nothing listens there: what is sent is answered by another sentence.
    url = ["--url", f"http://127.0.0.1:{refusing_port()}", "--api-key", "pd_00_x"]
    for odd in ("a/b", "../account", "a%2Fb", "\udcff"):
        given = [each.replace("ID", odd) for each in command.split()]
        done = CliRunner().invoke(main, [*given, *url])
        assert (done.exit_code, done.stdout) == (1, "")
        assert re.match(f"Error: {name} (must have|has half of)", done.stderr), done.stderr


WRONG_KEY = {"error": "Invalid or inactive API key", "reason": "unauthorized"}
FAULT = {"error": "Internal server error", "reason": "internal_error", "requestId": "req_1"}
ONE_FIELD = {
    "error": "rate: It needs per",
    "details": [{"field": "rate", "message": "It needs per."}],
}
STRANGE = "URL answers, but not as Postdate does{}; say where Postdate is with --url.\n"


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (401, WRONG_KEY, "Invalid or inactive API key.\n"),
        (400, ONE_FIELD, "rate: It needs per.\n"),
        (500, FAULT, "Internal server error (request req_1).\n"),
        (404, b"<html>", STRANGE.format(" (404 Reason)")),
        (200, b"<html>", STRANGE.format("")),
    ],
)
def test_an_error_is_one_sentence(status: int, body: object, says: str) -> None:
    with Line(answer(status, body)) as line:
        done = postdate("stats", url=line.url, api_key="pd_00_x")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"Error: {says}".replace("URL", line.url)


def test_without_a_key_or_a_service_it_says_what_to_do() -> None:
    done = postdate("stats")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "Error: There is no API key: set POSTDATE_API_KEY or give --api-key."
    )
    url = f"http://127.0.0.1:{refusing_port()}"
    done = postdate("stats", "--url", url, "--api-key", "pd_00_x")
    assert done.returncode == 1
    assert done.stderr == (
        f"Error: {url} cannot be reached: Connection refused;"
        " start `postdate up`, or say where Postdate is with --url.\n"
    )
    done = postdate("stats", url="localhost", api_key="pd_00_x")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


def test_any_bytes_of_an_argument_are_data() -> None:
    assert content("a\udcff") == b"a\xff"


@pytest.mark.parametrize(
    ("text", "as_sent"),
    [
        ("2026-12-24 18:00", "2026-12-24T18:00:00+01:00"),
        ("2026-07-01", "2026-07-01T00:00:00+02:00"),
        ("2026-12-24T18:00Z", "2026-12-24T18:00Z"),
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


def test_a_refused_destination_names_the_setting_to_who_runs_the_service_on_this_machine(
    settings: dict[str, str],
) -> None:
    done = postdate("schedule", "http://10.0.0.1/", "--in", "1h", **settings)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: Destination not allowed; POSTDATE_ALLOW_TARGETS")
    for base_url, hinted in (("http://[::1]:8000", True), ("http://192.0.2.1", False)):
        assert ("ALLOW_TARGETS" in with_hint("Destination not allowed.", base_url)) is hinted
        assert with_hint("Something else.", base_url) == "Something else."
