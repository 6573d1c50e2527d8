"""The commands of a customer: what they send, print and refuse."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from typing import Any

import pytest
from click.testing import CliRunner

from cli.customer.remote import with_hint
from cli.main import main
from cli.parameters import content, moment
from tests.cli.running import Running
from tests.client.line import Line, answer
from tests.support.servers import (
    PostdateProcess,
    Receiver,
    in_days,
    postdate,
    postdate_json,
    refusing_port,
    until,
)

TARGET = "http://127.0.0.1:9999/commands"


@pytest.fixture
def settings(postdate_up: PostdateProcess) -> dict[str, str]:
    return {"url": postdate_up.base_url, "api_key": postdate_up.api_key}


def listed(settings: dict[str, str], target: str) -> list[dict[str, Any]]:
    found = postdate_json("list", "--limit", "500", **settings)
    return [each for each in found if each["targetUrl"] == target]


def scheduled(settings: dict[str, str], *arguments: str) -> str:
    made = postdate_json("schedule", *arguments, **settings)
    return str(made["scheduleId"])


def test_a_delay_is_told_to_the_server_as_one(settings: dict[str, str]) -> None:
    arguments = ("http://127.0.0.1:9999/", "--delay", "40d", "--idempotency-key", "delayed")
    days = [in_days(40)]
    first = postdate_json("schedule", *arguments, **settings)
    days.append(in_days(40))  # another day if midnight has passed
    assert first["message"].startswith(tuple(f"Scheduled for {each:%Y-%m-%d}" for each in days))
    # By a time of this machine's making it would be another request, under the same key.
    assert postdate_json("schedule", *arguments, **settings) == {**first, "replayed": True}
    postdate_json("cancel", first["scheduleId"], **settings)


def test_cancel_logs_and_stats(settings: dict[str, str]) -> None:
    before = postdate_json("stats", **settings)
    target = f"http://127.0.0.1:{refusing_port()}/refused"
    first, second = (scheduled(settings, target, "--in", each) for each in ("1d", "2d"))
    assert [each["scheduleId"] for each in listed(settings, target)] == [first, second]
    cancelled = postdate_json("cancel", first, **settings)
    assert cancelled["creditsRemaining"] == before["creditsRemaining"] - 1
    many = postdate("cancel", first, second, **settings)
    assert (many.returncode, many.stderr) == (0, "")
    for each in (first, second):  # safe to repeat
        assert f"{each}  Cancelled  {before['creditsRemaining']:,} credits\n" in many.stdout
    none = postdate("cancel", first, "sch_none", **settings)
    assert (none.returncode, none.stderr) == (1, "1 of 2 could not be cancelled.\n")

    failing = scheduled(settings, target, "--in", "0s")
    until(lambda: postdate_json("logs", "--status", "failed", "--target", target, **settings))
    done = postdate("logs", "--target", target, "--limit", "1", "--status", "failed", **settings)
    assert re.fullmatch(
        rf"\S+Z  failed       -  +\d+ ms  GET {target}  {failing}  Connection refused\n",
        done.stdout,
    )
    after = postdate_json("stats", **settings)
    assert after["failedInvocations"] == before["failedInvocations"] + 1
    told = postdate("stats", **settings).stdout
    assert re.fullmatch(
        r"[\d,]+ executed from \S+Z to \S+Z\n"
        r"[\d,]+ completed, [\d,]+ failed, [\d,.]+ ms on average\n"
        rf"{after['creditsRemaining']:,} credits left\n",
        told,
    )


def test_all_that_match_are_cancelled_once_it_is_confirmed(settings: dict[str, str]) -> None:
    target = f"http://127.0.0.1:{refusing_port()}/all"
    first, second, last = (scheduled(settings, target, "--in", each) for each in ("1d", "2d", "9d"))
    chosen = ("cancel", "--target", target, "--to", f"{in_days(5):%Y-%m-%d}")
    asked = postdate(*chosen, **settings)
    assert (asked.returncode, asked.stdout) == (1, "")
    assert "Cancel 2 that wait?" in asked.stderr
    assert "Cancel 1 that wait?" in postdate(*chosen, "--limit", "1", **settings).stderr
    done = postdate_json(*chosen, "--yes", **settings)
    assert [each["scheduleId"] for each in done] == [first, second]
    assert [each["scheduleId"] for each in listed(settings, target)] == [last]
    none = postdate(*chosen, **settings)
    assert (none.returncode, none.stdout, none.stderr) == (0, "Nothing that waits matches.\n", "")
    assert [each["scheduleId"] for each in postdate_json(*chosen[:3], "--yes", **settings)] == [
        last
    ]


def test_a_filter_leaves_recurring_schedules_their_next_occurrences(
    settings: dict[str, str],
) -> None:
    target = f"http://127.0.0.1:{refusing_port()}/rules"
    rules = [
        postdate_json("recurring", "create", target, "--every", "1d", **settings) for _ in range(2)
    ]
    chosen = ("cancel", "--target", target)
    none = postdate(*chosen, **settings)
    assert (none.returncode, none.stdout) == (0, "Nothing that waits matches.\n")
    left = "2 belong to recurring schedules and stay: pause those instead."
    assert none.stderr == left + "\n"
    waiting = scheduled(settings, target, "--in", "1d")
    [rule_id, other_id] = [each["recurringId"] for each in rules]
    now = postdate_json("recurring", "trigger", rule_id, **settings)["scheduleId"]
    until(lambda: postdate_json("logs", now, "--status", "failed", **settings))
    asked = postdate(*chosen, **settings)
    assert (asked.returncode, f"Cancel 1 that wait? {left}" in asked.stderr) == (1, True)
    done = postdate(*chosen, "--yes", **settings)
    assert (done.stdout.split()[0], done.stdout.count("\n")) == (waiting, 1)
    assert done.stderr == left + "\n"
    assert {each["scheduleId"] for each in listed(settings, target)} == {
        each["scheduleId"] for each in rules
    }
    postdate_json("recurring", "delete", rule_id, **settings)
    [one] = postdate(*chosen, "--yes", **settings).stderr.splitlines()
    assert one == "1 belongs to a recurring schedule and stays: pause that instead."
    by_rule = ("cancel", "--recurring", other_id)
    assert postdate(*by_rule, **settings).stderr.startswith("Cancel 1 that wait? [y/N]")
    [cancelled] = postdate_json(*by_rule, "--yes", **settings)
    assert cancelled["scheduleId"] == rules[1]["scheduleId"]


def test_schedules_are_found_by_their_reference(settings: dict[str, str]) -> None:
    target, name = f"http://127.0.0.1:{refusing_port()}/orders", f"order-{token_hex(4)}"
    first, second, other = (
        scheduled(settings, target, "--in", "1d", "--reference", f"{name}-{suffix}")
        for suffix in ("a", "b", "c")
    )
    cleared = postdate_json("change", other, "--clear", "reference", **settings)
    assert cleared["reference"] is None
    assert re.search(f"^reference +{name}-b$", postdate("get", second, **settings).stdout, re.M)
    found = postdate_json("list", "--reference", f"{name}-*", **settings)
    assert [each["scheduleId"] for each in found] == [first, second]
    [line] = postdate("list", "--reference", f"{name}-b", **settings).stdout.splitlines()
    assert line.endswith(f"GET {target}  {second}  {name}-b")
    cancelled = postdate_json("cancel", "--reference", f"{name}-*", "--yes", **settings)
    assert [each["scheduleId"] for each in cancelled] == [first, second]

    [entry] = postdate("logs", "--reference", f"{name}-a", **settings).stdout.splitlines()
    assert entry.endswith(f"GET {target}  {first}  {name}-a")

    failed = scheduled(settings, target, "--in", "0s", "--reference", f"{name}-d")
    until(lambda: postdate_json("logs", failed, "--status", "failed", **settings))
    again = postdate("replay", "--reference", f"{name}-d", "--yes", **settings).stdout
    assert again.endswith(f"  Replay of {failed}\n")
    assert postdate_json("get", again.split()[0], **settings)["reference"] == f"{name}-d"


def test_one_that_waits_is_kept_or_replaced(settings: dict[str, str]) -> None:
    name = f"cart-{token_hex(4)}"
    wanted = ("schedule", TARGET, "--in", "1h", "--reference", name)
    made = scheduled(settings, *wanted[1:], "--text", "a")
    kept = postdate(*wanted, "--text", "b", "--on-existing", "keep", **settings).stdout
    assert re.fullmatch(rf"{made}  It waited already and was kept; it is due \S+Z\n", kept)
    assert postdate_json("get", made, **settings)["targetBodyText"] == "a"
    bound = ("--on-existing", "replace", "--max-wait", "30m")
    replaced = postdate_json(*wanted, "--text", "c", *bound, **settings)
    assert (replaced["scheduleId"], replaced["existing"]) == (made, True)
    found = postdate_json("get", made, **settings)
    assert found["targetBodyText"] == "c"
    waits = datetime.fromisoformat(found["triggerAt"]) - datetime.fromisoformat(found["createdAt"])
    assert waits == timedelta(minutes=30)
    other = postdate("schedule", TARGET, "--in", "1h", *bound, **settings)
    assert other.stderr == "onExisting: It needs a reference.\n"


def test_what_failed_is_replayed(settings: dict[str, str]) -> None:
    target = f"http://127.0.0.1:{refusing_port()}/replayed"
    failed = scheduled(settings, target, "--in", "0s")
    failures = ("logs", "--status", "failed", "--target", target)
    until(lambda: postdate_json(*failures, **settings))
    chosen = ("replay", "--failed", "--since", "1h", "--target", target)
    asked = postdate(*chosen, **settings)
    assert asked.returncode == 1
    assert "Replay 1 that failed, for a credit each?" in asked.stderr
    done = postdate(*chosen, "--yes", **settings)
    assert re.fullmatch(rf"(sch_\w{{26}})  Replay of {failed}\n", done.stdout)
    until(lambda: len(postdate_json(*failures, **settings)) == 2)
    none = postdate("replay", "--target", f"{target}/none", **settings)
    assert none.stdout == "Nothing that failed matches.\n"
    [again] = postdate_json("replay", done.stdout.split()[0], **settings)
    assert again["replayOf"] == done.stdout.split()[0]


def test_follow_shows_what_ends_once_and_in_order(settings: dict[str, str]) -> None:
    target = f"http://127.0.0.1:{refusing_port()}/follow"
    failures = ("logs", "--target", target, "--status", "failed")
    old = scheduled(settings, target, "--in", "0s")
    until(lambda: postdate_json(*failures, **settings), "the first")
    follower = Running("logs", "--follow", "--json", "--target", target, **settings)
    try:
        until(lambda: len(follower.lines) == 1, "the first")
        waiting = scheduled(settings, target, "--in", "1d")
        new = scheduled(settings, target, "--in", "0s")
        until(lambda: len(follower.lines) == 2, "the new one")
        postdate_json("cancel", waiting, **settings)
        until(lambda: len(follower.lines) == 3, "the cancelled one")
    finally:
        assert follower.end() == (0, "")
    shown = [json.loads(line) for line in follower.lines]
    assert [(each["scheduleId"], each["status"]) for each in shown] == [
        (old, "failed"),
        (new, "failed"),
        (waiting, "cancelled"),
    ]


def test_without_a_key_it_says_how_to_get_one() -> None:
    done = postdate("stats")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("There is no API key: set POSTDATE_API_KEY or give --api-key.")


def test_a_wrong_key_and_a_wrong_address_are_one_sentence(postdate_up: PostdateProcess) -> None:
    done = postdate("stats", "--url", postdate_up.base_url, "--api-key", "pd_00_x")
    assert (done.returncode, done.stderr) == (1, "Invalid or inactive API key.\n")
    url = f"http://127.0.0.1:{refusing_port()}"
    done = postdate("stats", url=url, api_key="pd_00_x")
    assert done.returncode == 1
    assert done.stderr == (
        f"{url} cannot be reached: Connection refused;"
        " start `postdate up`, or say where Postdate is with --url.\n"
    )
    done = postdate("stats", url="localhost", api_key="pd_00_x")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


ONE = ("schedule", "http://x", "--in", "1s")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (ONE[:2], "Say when"),
        ((*ONE, "--delay", "5s"), "Say when"),
        ((*ONE[:3], "soon"), "Invalid value"),
        ((*ONE, "--body", "@/no/such/file"), "cannot be read: No such file"),
        ((*ONE, "--body", "{"), "--text sends any text, --data any bytes"),
        ((*ONE, "--body", "[1,2]"), "--text sends any text, --data any bytes"),
        ((*ONE, "--text", "a", "--base64", "AA=="), "Give one body"),
        ((*ONE, "--base64", "A"), "is not base64"),
        ((*ONE, "--header", "X-A"), "Invalid value"),
        (("logs", "--follow", "--order", "asc"), "--follow goes with"),
        (("replay", "sch_1", "--failed"), "Give ids, or --failed"),
        (("replay", "--since", "1h"), "Give ids, or --failed"),
        (("replay", "--from", "2026-11-01"), "Give ids, or --failed"),
        (("replay", "--failed", "--since", "1h", "--from", "2026-11-01"), "Give --since or --from"),
        (("cancel", "sch_1", "--target", "http://x"), "Give ids, or --target"),
        (("cancel", "--to", "2026-12-24"), "Give ids, or --target"),
        (("change", "sch_1"), "Say what to change"),
        (("change", "sch_1", "--text", "x", "--clear", "text"), "cannot be given and cleared"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(arguments: tuple[str, ...], says: str) -> None:
    done = CliRunner().invoke(main, [*arguments, "--api-key", "pd_00_x"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: ")
    assert says in done.stderr


@pytest.mark.parametrize("odd", ["", "..", "a/b", "../account", "a?b", "a#b", "a%2Fb", "\udcff"])
@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("get", "ID"), "schedule_id"),
        (("change", "ID", "--in", "1h"), "schedule_id"),
        (("callback", "resend", "ID"), "schedule_id"),
        (("lane", "show", "ID"), "lane"),
        (("lane", "set", "ID", "--rate", "1"), "lane"),
        (("lane", "pause", "ID"), "lane"),
        (("lane", "resume", "ID"), "lane"),
        (("lane", "clear", "ID"), "lane"),
        (("recurring", "show", "ID"), "name"),
        (("recurring", "show", "rec_ID"), "recurring_id"),
        (("recurring", "delete", "ID"), "name"),
        (("recurring", "trigger", "ID"), "name"),
    ],
)
def test_what_is_no_id_is_sent_nowhere(command: tuple[str, ...], name: str, odd: str) -> None:
    if command[-1] == "rec_ID" and odd in ("", ".."):
        return  # these are ids, which no schedule has
    given = [each.replace("ID", odd) for each in command]
    # Nothing listens there: what is sent is answered by another sentence.
    url = ["--url", f"http://127.0.0.1:{refusing_port()}", "--api-key", "pd_00_x"]
    done = CliRunner().invoke(main, [*given, *url])
    assert (done.exit_code, done.stdout) == (1, "")
    assert re.match(f"{name} (must have|has half of)", done.stderr), done.stderr


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


@pytest.mark.parametrize(("status", "told"), [(404, " (404 Reason)"), (200, "")])
def test_a_stranger_who_answers_is_one_sentence(status: int, told: str) -> None:
    with Line(answer(status, b"<html>")) as stranger:
        url = stranger.url
        done = postdate("stats", url=url, api_key="pd_00_x")
    assert (done.returncode, done.stdout) == (1, "")
    says = f"{url} answers, but not as Postdate does{told}; say where Postdate is with --url.\n"
    assert done.stderr == says


def test_retries_are_asked_for_shown_and_stopped(
    settings: dict[str, str], receiver: Receiver
) -> None:
    target = receiver.answer("/hook", status=503)
    retries = ("--retries", "5", "--retry-delays", "1h, 90s", "--timeout", "5")
    schedule_id = scheduled(settings, target, "--in", "0s", *retries)
    until(lambda: postdate_json("logs", "--status", "retrying", "--target", target, **settings))
    shown = postdate("get", schedule_id, **settings).stdout
    delays = r'retryDelays +\["1h", "1m30s"\]'
    for line in ("retries +5", delays, "timeout +5s", "attempts +1", "phases .+ ms"):
        assert re.search(f"^{line}$", shown, re.MULTILINE)
    cleared = postdate("change", schedule_id, "--clear", "timeout", **settings).stdout
    assert re.search("^timeout +30s$", cleared, re.MULTILINE)
    logged = postdate("logs", "--status", "retrying", "--target", target, **settings).stdout
    assert re.search(f"503 .* {schedule_id}  Service Unavailable  attempt 2 at 20", logged)
    waiting = postdate("list", "--limit", "500", **settings).stdout
    assert f"{schedule_id}  attempt 2, after Service Unavailable" in waiting
    stopped = postdate("cancel", schedule_id, **settings).stdout
    assert f"{schedule_id}  Stopped after 1 attempt; no credit was refunded" in stopped
    ended = postdate("list", "--status", "executed,cancelled", "--limit", "500", **settings).stdout
    assert re.search(f"{target}  {schedule_id}  failed  Service Unavailable\n", ended)
    attempts = postdate("logs", schedule_id, **settings).stdout
    lines = (r"\S+  retrying ", "    [0-9]+ ms late", "    .*last byte .*", r"\S+  failed ")
    assert re.search(r".*\n".join(lines), attempts)
    [retrying] = postdate_json("logs", schedule_id, "--status", "retrying", **settings)
    assert retrying["phases"]["firstByteMs"] is not None


def test_what_strangers_wrote_does_not_speak_to_the_terminal(settings: dict[str, str]) -> None:
    url = "http://example.com/\u202egpj.exe?\u00ad"
    made = scheduled(settings, url, "--in", "1h", "--header", "X-A: \u00ad")
    for words in (("list",), ("get", made), ("logs", "--target", url)):
        plain, as_json = (postdate(*words, *more, **settings).stdout for more in ((), ("--json",)))
        assert "http://example.com/\\u202egpj.exe?\\u00ad" in plain
        assert not set("\u202e\u00ad") & set(plain + as_json)
        assert url in json.dumps(json.loads(as_json), ensure_ascii=False)


def test_a_waiting_one_is_changed_and_the_rest_stays(settings: dict[str, str]) -> None:
    year = datetime.now(UTC).year + 2
    made = scheduled(settings, TARGET, "--in", "1h", "--body", '{"n": 1}', "--header", "X-A: 1")
    changed = postdate_json(
        "change", made, "--at", f"{year}-01-01T00:00Z", "--target", TARGET + "/2",
        "--delivery", "at-most-once", **settings,
    )  # fmt: skip
    assert (changed["scheduleId"], changed["triggerAt"]) == (made, f"{year}-01-01T00:00:00.000Z")
    assert (changed["targetUrl"], changed["delivery"]) == (TARGET + "/2", "at-most-once")
    assert (changed["targetBody"], changed["targetHeaders"]) == ({"n": 1}, {"X-A": "1"})
    cleared = postdate_json("change", made, "--clear", "body", "--clear", "headers", **settings)
    assert (cleared["targetBody"], cleared["targetHeaders"]) == (None, {})
    assert cleared["triggerAt"] == changed["triggerAt"]
    assert (cleared["targetMethod"], cleared["delivery"]) == ("GET", "at-most-once")
    text = postdate("change", made, "--text", "hello", **settings).stdout
    assert "targetBodyText  hello\n" in text
    assert "eplayable" not in text
    postdate("cancel", made, **settings)
    why = re.findall(
        "^(notReplayableReason|scheduleId         )  (.*)$",
        postdate("get", made, **settings).stdout,
        re.M,
    )
    assert why == [("scheduleId         ", made), ("notReplayableReason", "body_not_kept")]


def test_a_fault_of_the_service_names_the_request() -> None:
    fault = {"error": "Internal server error", "reason": "internal_error", "requestId": "req_1"}
    with Line(answer(500, fault)) as line:
        done = postdate("stats", url=line.url, api_key="pd_00_x")
    assert done.stderr == "Internal server error (request req_1).\n"


def test_an_error_for_machines_has_its_status_and_every_field(settings: dict[str, str]) -> None:
    done = postdate("schedule", "ftp://x", "--at", "never", "--json", **settings)
    told = json.loads(done.stderr)
    assert (told["status"], told["reason"]) == (400, "invalid_field")
    assert told["requestId"].startswith("req_")
    assert [each["field"] for each in told["details"]] == ["targetUrl", "triggerAt"]
    assert all(each["message"] for each in told["details"])
    for_people = postdate("schedule", "ftp://x", "--at", "never", **settings)
    assert (for_people.returncode, for_people.stdout) == (1, "")
    says = r"targetUrl: It must be an absolute [^\n]+; triggerAt: It must be [^\n]+\.\n"
    assert re.fullmatch(says, for_people.stderr)


def test_a_refused_destination_names_the_setting_to_who_runs_the_service_on_this_machine(
    settings: dict[str, str],
) -> None:
    done = postdate("schedule", "http://10.0.0.1/", "--in", "1h", **settings)
    assert done.returncode == 1
    assert done.stderr.startswith("Destination not allowed; POSTDATE_ALLOW_TARGETS")
    for base_url, hinted in (("http://[::1]:8000", True), ("http://192.0.2.1", False)):
        assert ("ALLOW_TARGETS" in with_hint("Destination not allowed.", base_url)) is hinted
        assert with_hint("Something else.", base_url) == "Something else."
