"""`postdate get`, `list` and `change`, and what every command says of an error."""

from __future__ import annotations

import json

import pytest

from cli.remote import with_hint
from tests.servers import PostdateProcess, free_port, postdate, postdate_json

TARGET = "http://127.0.0.1:9999/commands"


@pytest.fixture
def settings(postdate_up: PostdateProcess) -> dict[str, str]:
    """Of an account of its own."""
    up, name = postdate_up, f"commands {free_port()}"
    postdate_json("account", "create", name, "--credits", "10", data_dir=up.data_dir)
    key = postdate_json("key", "create", name, "--name", "x", data_dir=up.data_dir)["key"]
    return {"url": up.base_url, "api_key": key}


def scheduled(settings: dict[str, str], *arguments: str) -> str:
    return str(postdate_json("schedule", TARGET, *arguments, **settings)["scheduleId"])


def test_a_schedule_is_shown_as_it_stands(settings: dict[str, str]) -> None:
    made = scheduled(settings, "--in", "1h", "--header", "X-A: 1", "--body", '{"n": 1}')
    found = postdate_json("get", made, **settings)
    assert (found["scheduleId"], found["status"]) == (made, "scheduled")
    assert (found["targetHeaders"], found["targetBody"]) == ({"X-A": "1"}, {"n": 1})
    lines = dict(
        line.split(maxsplit=1) for line in postdate("get", made, **settings).stdout.splitlines()
    )
    assert (lines["scheduleId"], lines["targetUrl"]) == (made, TARGET)
    assert (lines["targetHeaders"], lines["targetBody"]) == ('{"X-A": "1"}', '{"n": 1}')
    assert "executedAt" not in lines
    missing = postdate("get", "sch_x", **settings)
    assert (missing.returncode, missing.stderr) == (1, "There is no such schedule.\n")


def test_what_waits_is_listed_by_its_time(settings: dict[str, str]) -> None:
    assert postdate("list", **settings).stdout == "Nothing waits.\n"
    later, soon, last = (scheduled(settings, "--in", each) for each in ("2h", "1h", "3h"))
    told = [each["scheduleId"] for each in postdate_json("list", **settings)]
    assert told == [soon, later, last]
    first, more = postdate(
        "list", "--limit", "1", "--order", "desc", **settings
    ).stdout.splitlines()
    assert first.endswith(f"  GET {TARGET}  {last}")
    assert "--limit 5 shows them" in more
    assert postdate_json("list", "--to", "2020-01-01", **settings) == []


def test_a_waiting_one_is_changed_and_the_rest_stays(settings: dict[str, str]) -> None:
    made = scheduled(settings, "--in", "1h", "--body", '{"n": 1}', "--header", "X-A: 1")
    changed = postdate_json(
        "change", made, "--at", "2027-01-01T00:00Z", "--target", TARGET + "/2",
        "--delivery", "at-most-once", **settings,
    )  # fmt: skip
    assert (changed["scheduleId"], changed["triggerAt"]) == (made, "2027-01-01T00:00:00.000Z")
    assert (changed["targetUrl"], changed["delivery"]) == (TARGET + "/2", "at-most-once")
    assert (changed["targetBody"], changed["targetHeaders"]) == ({"n": 1}, {"X-A": "1"})
    cleared = postdate_json("change", made, "--clear", "body", "--clear", "headers", **settings)
    assert (cleared["targetBody"], cleared["targetHeaders"]) == (None, {})
    assert cleared["triggerAt"] == changed["triggerAt"]
    assert (cleared["targetMethod"], cleared["delivery"]) == ("GET", "at-most-once")
    text = postdate("change", made, "--text", "hello", **settings).stdout
    assert "targetBodyText   hello\n" in text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "Say what to change"),
        (("--in", "1h", "--at", "2027-01-01"), "Say when, with one of"),
        (("--body", "{}", "--text", "x"), "Give one body"),
        (("--text", "x", "--clear", "text"), "cannot be given and cleared"),
    ],
)
def test_a_change_says_one_thing(
    settings: dict[str, str], arguments: tuple[str, ...], told: str
) -> None:
    done = postdate("change", "sch_x", *arguments, **settings)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


def test_an_error_for_machines_has_its_status_and_every_field(settings: dict[str, str]) -> None:
    done = postdate("schedule", "ftp://x", "--at", "never", "--json", **settings)
    told = json.loads(done.stderr)
    assert told["status"] == 400
    assert [each["field"] for each in told["details"]] == ["targetUrl", "triggerAt"]
    assert all(each["message"] for each in told["details"])
    unknown = json.loads(postdate("get", "sch_x", "--json", **settings).stderr)
    assert unknown == {"error": "There is no such schedule.", "status": 404, "details": []}


def test_a_refused_destination_names_the_setting_to_who_runs_the_service_on_this_machine(
    settings: dict[str, str],
) -> None:
    done = postdate("schedule", "http://10.0.0.1/", "--in", "1h", **settings)
    assert done.returncode == 1
    assert done.stderr.startswith("Destination not allowed; POSTDATE_ALLOW_TARGETS")
    for base_url, hinted in (("http://[::1]:8000", True), ("http://192.0.2.1", False)):
        assert ("ALLOW_TARGETS" in with_hint("Destination not allowed.", base_url)) is hinted
        assert with_hint("Something else.", base_url) == "Something else."
