"""The commands of a customer with a real service."""

from __future__ import annotations

import json
import re

from tests.cli.running import Running
from tests.support.servers import Receiver, in_days, postdate, postdate_json, refusing_port, until

TARGET = "http://127.0.0.1:9999/commands"


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


def test_cancel_logs_and_stats(settings: dict[str, str]) -> None:
    target = f"http://127.0.0.1:{refusing_port()}/refused"
    first, second = (scheduled(settings, target, "--in", each) for each in ("1d", "2d"))
    cancelled = postdate("cancel", first, **settings).stdout
    assert re.fullmatch(rf"{first}  Cancelled.*  9 credits\n", cancelled)
    many = postdate("cancel", first, second, **settings)  # safe to repeat
    gone = "".join(f"{each}  Cancelled  10 credits\n" for each in (first, second))
    assert (many.returncode, many.stdout, many.stderr) == (0, gone, "")
    none = postdate("cancel", first, "sch_none", **settings)
    assert (none.returncode, none.stderr) == (1, "Error: 1 of 2 could not be cancelled.\n")

    failing = scheduled(settings, target, "--in", "0s")
    until(lambda: postdate_json("logs", "--status", "failed", "--target", target, **settings))
    logged = postdate("logs", "--limit", "1", "--status", "failed", **settings).stdout
    entry = rf"TIME .*\n[\d-]+ [\d:]+  failed +\d+  {failing}  GET {target}  Connection refused\n"
    assert re.fullmatch(entry, logged)
    stats = postdate("stats", **settings).stdout
    assert re.search(r"^executed +1\ncompleted +0\nfailed +1\n", stats, re.MULTILINE)
    assert stats.endswith("credits left   9\n")


def test_a_paused_lane_keeps_what_is_due(settings: dict[str, str]) -> None:
    pause = ("lane", "pause", "acme", "--for", "1d", "--note", "they move house")
    _, first, second = postdate(*pause, **settings).stdout.splitlines()
    assert first.startswith("acme  paused  no limits  ")
    assert re.fullmatch(r"    paused by deploys until [\d-]+ [\d:]+: they move house", second)
    target = f"http://127.0.0.1:{refusing_port()}/refused"
    made = scheduled(settings, target, "--in", "0s", "--lane", "acme")
    assert re.search(
        r"  no limits +0 +1 +1  [\d-]+ [\d:]+\n",
        postdate("lane", "show", "acme", **settings).stdout,
    )
    postdate("lane", "resume", "acme", **settings)
    until(lambda: postdate_json("logs", "--status", "failed", "--lane", "acme", **settings))
    entry = postdate("logs", "--lane", "acme", **settings).stdout
    assert re.search(rf"{made}  GET {target}  acme  Connection refused\n", entry)


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
    assert [each["scheduleId"] for each in postdate_json("list", **settings)] == [last]
    none = postdate(*chosen, **settings)
    assert (none.returncode, none.stdout, none.stderr) == (0, "Nothing that waits matches.\n", "")
    assert [each["scheduleId"] for each in postdate_json(*chosen[:3], "--yes", **settings)] == [
        last
    ]


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


def test_retries_are_shown_and_stopped(settings: dict[str, str], receiver: Receiver) -> None:
    target = receiver.answer("/hook", status=503)
    schedule_id = scheduled(settings, target, "--in", "0s", "--retries", "5")
    until(lambda: postdate_json("logs", "--status", "retrying", **settings))
    waiting = postdate("list", **settings).stdout
    assert re.search(rf"  retrying  {schedule_id}  .*  attempt 2, after Service", waiting)
    stopped = postdate("cancel", schedule_id, **settings).stdout
    assert f"{schedule_id}  Stopped after 1 attempt; no credit was refunded" in stopped
    ended = postdate("list", "--status", "executed,cancelled", **settings).stdout
    assert ended.endswith(f"failed  {schedule_id}  GET {target}  Service Unavailable\n")
    attempts = postdate("logs", schedule_id, **settings).stdout
    lines = (r"\S+  retrying ", "    [0-9]+ ms late", "    .*last byte .*", r"\S+ \S+  failed ")
    assert re.search(r".*\n".join(lines), attempts)


def test_what_strangers_wrote_does_not_speak_to_the_terminal(settings: dict[str, str]) -> None:
    url = "http://example.com/\u202egpj.exe?\u00ad"
    made = scheduled(settings, url, "--in", "1h", "--header", "X-A: \u00ad")
    for words in (("list",), ("get", made), ("logs", "--target", url)):
        plain, as_json = (postdate(*words, *more, **settings).stdout for more in ((), ("--json",)))
        assert "http://example.com/\\u202egpj.exe?\\u00ad" in plain
        assert not set("\u202e\u00ad") & set(plain + as_json)
        assert url in json.dumps(json.loads(as_json), ensure_ascii=False)


def test_an_error_for_machines_has_its_status_and_every_field(settings: dict[str, str]) -> None:
    done = postdate("schedule", "ftp://x", "--at", "never", "--json", **settings)
    told = json.loads(done.stderr)
    assert (told["status"], told["reason"]) == (400, "invalid_field")
    assert told["requestId"].startswith("req_")
    assert [each["field"] for each in told["details"]] == ["targetUrl", "triggerAt"]
    assert all(each["message"] for each in told["details"])
    for_people = postdate("schedule", "ftp://x", "--at", "never", **settings)
    assert (for_people.returncode, for_people.stdout) == (1, "")
    says = r"Error: URL: It must be an absolute [^\n]+; --at: It must be [^\n]+\.\n"
    assert re.fullmatch(says, for_people.stderr)
