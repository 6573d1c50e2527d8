"""`postdate apply` with a real service."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from cli.customer.apply.command import apply_command
from cli.customer.apply.plan import Step
from postdate import Postdate
from scheduler.times import format_iso8601
from tests.client.line import Line, answer
from tests.support.commands import own_account
from tests.support.customer import Customer, now_ms
from tests.support.servers import (
    PostdateProcess,
    in_days,
    postdate,
    postdate_json,
    refusing_port,
    until,
)

FILE = """\
owns: [billing-*]
account:
  callbackUrl: https://example.com/ended?token=${TOKEN}
lanes:
  billing-partner: {rate: 100, per: 60s, burst: 10}
recurring:
  billing-report:
    cron: 0 9 * * mon-fri
    targetUrl: https://example.com/report
    targetHeaders: {Authorization: "Bearer ${TOKEN}", X-A: b}
    targetBody: {n: 1, f: 1.50, t: true, x: null, l: [1, {a: b}]}
    lane: billing-partner
    retries: 3
    retryDelays: [10, 1m]
    timeout: 5
    expiresAfter: 10m
    reference: daily
  billing-poll:
    every: 900
    startsAt: ${START}
    targetUrl: https://example.com/poll
    targetBodyBase64: AAEC/w==
    callbackUrl: null
"""
FILE = FILE.replace("${START}", in_days(300).isoformat())
CHANGED = 3


def apply(
    settings: dict[str, str], text: str, *options: str, token: str = "s3cret"
) -> tuple[int, str, str]:
    """Exit status, stdout and stderr, with --exit-code."""
    text = text.replace("${TOKEN}", token)
    done = postdate("apply", "-f", "-", "--exit-code", *options, stdin=text, **settings)
    return done.returncode, done.stdout, done.stderr


def steps(settings: dict[str, str], text: str, *options: str) -> list[tuple[str, str]]:
    """What became of each, by its name."""
    _, out, _ = apply(settings, text, "--json", *options)
    return [(each["name"] or each["kind"], each["action"]) for each in json.loads(out)["steps"]]


def state(settings: dict[str, str]) -> Any:
    """All that a file can set."""
    shown = [postdate_json(*each, **settings) for each in (("lane", "list"), ("recurring", "list"))]
    return [*shown, postdate_json("callback", "show", **settings)["callbackUrl"]]


def test_the_second_run_changes_nothing(settings: dict[str, str]) -> None:
    before = state(settings)
    status, out, _ = apply(settings, FILE, "--dry-run")
    assert status == CHANGED
    assert "+ recurring billing-poll\n    + every: 15m\n" in out
    assert '    + targetHeaders: {"Authorization": "••••••••", "X-A": "b"}\n' in out
    assert out.endswith("3 to create, 1 to change.\nNothing is changed: this is a dry run.\n")
    assert "s3cret" not in out
    assert state(settings) == before

    status, out, _ = apply(settings, FILE)
    assert (status, out.splitlines()[-1]) == (CHANGED, "3 created, 1 changed.")
    after = state(settings)
    for options in ((), ("--prune",), ("--dry-run",)):
        status, out, _ = apply(settings, FILE, *options)
        assert (status, out.splitlines()[-1]) == (0, "4 unchanged.")
    assert state(settings) == after
    assert postdate("apply", "-f", "-", stdin="{}", **settings).stdout == "Nothing to do.\n"


def test_a_difference_is_shown_by_its_field_and_set(settings: dict[str, str]) -> None:
    apply(settings, FILE)
    text = FILE.replace("rate: 100", "rate: 50").replace("n: 1,", "n: true,")
    text = text.replace("    reference: daily\n", "")
    for options in (("--dry-run",), ()):
        status, out, _ = apply(settings, text, *options)
        assert status == CHANGED
        assert "~ lane billing-partner\n    ~ rate: 100 → 50\n" in out
        assert '~ targetBody: {"n": 1,' in out
        assert "    - reference: daily\n" in out
    assert apply(settings, text)[0] == 0


def test_the_api_alone_compares_what_it_masks(settings: dict[str, str]) -> None:
    apply(settings, FILE)
    status, out, _ = apply(settings, FILE, "--dry-run", token="another")
    assert (status, out.count("only the API can compare")) == (0, 2)
    status, out, _ = apply(settings, FILE, token="another")
    assert (status, out.splitlines()[-1]) == (CHANGED, "2 changed, 2 unchanged.")
    assert "another" not in out
    masked = "    # a value that the API masks has changed\n"
    assert f"~ account\n{masked}~ recurring billing-report\n{masked}" in out
    assert apply(settings, FILE, token="another")[0] == 0


def test_prune_removes_what_the_file_owns_and_no_longer_names(settings: dict[str, str]) -> None:
    """A rule that is renamed is made anew before the old one goes."""
    apply(settings, FILE)
    postdate("lane", "set", "billing-old", "--parallelism", "1", **settings)
    postdate("lane", "pause", "billing-old", "--note", "by hand", **settings)
    for other in ("by-hand", "billing"):
        postdate("lane", "set", other, "--parallelism", "1", **settings)
        create = ("recurring", "create", "https://example.com/", "--every", "1d")
        postdate_json(*create, "--name", other, **settings)
    postdate_json(*create, **settings)  # without a name
    text = FILE.replace("billing-poll", "billing-polls")
    assert steps(settings, text)[-1] == ("billing-polls", "created")  # and nothing is removed
    assert steps(settings, text, "--prune")[-2:] == [
        ("billing-poll", "removed"),
        ("billing-old", "removed"),
    ]
    assert apply(settings, text, "--prune")[0] == 0
    lanes, rules, _ = state(settings)
    kept = {each["lane"]: (each["parallelism"], each["pauseNote"]) for each in lanes}
    assert kept == {
        "billing": (1, None),
        "billing-old": (None, "by hand"),
        "billing-partner": (None, None),
        "by-hand": (1, None),
    }
    names = [each["name"] for each in rules]
    assert names == ["billing-report", "by-hand", "billing", None, "billing-polls"]


def test_prune_needs_a_file_that_owns_something(settings: dict[str, str]) -> None:
    before = state(settings)
    status, out, err = apply(settings, "lanes: {a: {parallelism: 1}}", "--prune")
    assert (status, out) == (1, "")
    assert err == "Error: --prune needs `owns` in a file: the names that belong to it.\n"
    assert state(settings) == before


def test_a_pause_stays(settings: dict[str, str]) -> None:
    apply(settings, FILE)
    for command in (("lane", "pause", "billing-partner"), ("recurring", "pause", "billing-report")):
        postdate_json(*command, "--note", "they move", **settings)
    text = FILE.replace("rate: 100", "rate: 50").replace("0 9 *", "0 8 *")
    _, out, _ = apply(settings, text)
    assert out.count("    # stays paused by deploys: they move\n") == 2
    lanes, rules, _ = state(settings)
    assert [(each["rate"], each["paused"]) for each in lanes] == [(50, True)]
    assert (rules[0]["cron"], rules[0]["paused"]) == ("0 8 * * MON-FRI", True)


@pytest.mark.slow
def test_a_rule_that_has_ended_or_is_blocked_is_left_so_and_told(
    postdate_up: PostdateProcess,
) -> None:
    settings = own_account(postdate_up, 3)
    target = f"http://127.0.0.1:{refusing_port()}/"
    soon = now_ms() + 1000
    text = f"""\
recurring:
  ends: {{every: 1s, targetUrl: "{target}", startsAt: "{format_iso8601(soon)}",
         endsAt: "{format_iso8601(soon + 500)}"}}
  blocks: {{every: 1s, targetUrl: "{target}", lane: nowhere}}
"""
    _, out, _ = apply(settings, text)
    assert "    # nothing sets its lane nowhere, which has no limits then\n" in out
    wanted = {"ends": "ended", "blocks": "blocked"}

    def are_at_rest() -> bool:
        rules = postdate_json("recurring", "list", **settings)
        return {each["name"]: each["state"] for each in rules} == wanted

    until(are_at_rest, "both rules to come to rest")
    status, out, _ = apply(settings, text)
    assert status == 0
    assert "  recurring ends\n    # ended\n" in out
    assert "  recurring blocks\n    # blocked: insufficient credits" in out


def test_what_was_done_before_an_error_is_told_and_done_once(settings: dict[str, str]) -> None:
    text = """\
lanes:
  one: {parallelism: 1}
recurring:
  two: {every: 1h, targetUrl: "http://10.0.0.1/"}
  three: {every: 1h, targetUrl: "https://example.com/", callbackUrl: null}
"""
    status, out, err = apply(settings, text)
    assert (status, out) == (1, "+ lane one\n    + parallelism: 1\n1 created.\n")
    assert err.startswith("<stdin>:4: recurring two: Destination not allowed; POSTDATE_ALLOW_")
    assert err.endswith(" 1 more not tried. Run it again to do what is left.\n")
    text = text.replace("http://10.0.0.1/", "https://example.com/")
    assert steps(settings, text) == [("one", "unchanged"), ("two", "created"), ("three", "created")]


def test_nothing_is_printed_of_a_run_that_did_nothing(settings: dict[str, str]) -> None:
    text = 'recurring: {one: {every: 1h, targetUrl: "http://10.0.0.1/"}}'
    status, out, err = apply(settings, text)
    assert (status, out) == (1, "")
    assert err.startswith("<stdin>:1: recurring one: Destination not allowed")


def test_a_value_has_one_line(settings: dict[str, str]) -> None:
    """So that no text looks like a difference of its own."""
    text = 'lanes: {one: {parallelism: 1, note: "a\\n    - rate: 5"}}'
    _, out, _ = apply(settings, text)
    assert '    + note: "a\\n    - rate: 5"\n' in out
    _, out, _ = apply(settings, text.replace("a\\n", ""))
    assert '    ~ note: "a\\n    - rate: 5" →     - rate: 5\n' in out


@pytest.mark.parametrize("with_json", [True, False], ids=["json", "text"])
def test_an_api_that_fails_half_way(with_json: bool) -> None:
    fault = {"error": "Internal server error", "reason": "internal_error", "requestId": "req_1"}
    lane = answer(200, {"lane": "one"}, 'ETag: "1"\r\n')
    text = "lanes: {one: {parallelism: 1}, two: {parallelism: 1}, three: {parallelism: 1}}"
    options = ["--json"] if with_json else []
    with Line(lane, lane, lane, lane, answer(500, fault)) as line:
        settings = {"url": line.url, "api_key": "pd_00_x"}
        status, out, err = apply(settings, text, *options)
    assert status == 1
    assert [each.split()[:2] for each in line.requests[3:]] == [
        ["PUT", "/lanes/one"],
        ["PUT", "/lanes/two"],
    ]
    said = "<stdin>:1: lane two: Internal server error (request req_1). 1 more not tried."
    if with_json:
        assert [each["name"] for each in json.loads(out)["steps"]] == ["one"]
        assert json.loads(err)["status"] == 500
        err = json.loads(err)["error"] + "\n"
    assert err == f"{said} Run it again to do what is left.\n"


def test_an_interrupted_run_tells_what_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    def done(step: Step, client: Postdate) -> Step:
        if step.name == "two":
            raise KeyboardInterrupt
        return step

    monkeypatch.setattr(Step, "done", done)
    lane = answer(200, {"lane": "one"}, 'ETag: "1"\r\n')
    text = "lanes: {one: {parallelism: 1}, two: {parallelism: 1}, three: {parallelism: 1}}"
    with Line(lane, lane, lane) as line:
        options = ["-f", "-", "--url", line.url, "--api-key", "pd_00_x"]
        ran = CliRunner().invoke(apply_command, options, input=text)
    assert (ran.exit_code, ran.stdout) == (1, "+ lane one\n    + parallelism: 1\n1 created.\n")
    said = "<stdin>:1: lane two: Interrupted. It may have been done. 1 more not tried."
    assert ran.stderr == f"{said} Run it again to do what is left.\n"


def test_a_change_of_somebody_else_is_not_overwritten(settings: dict[str, str]) -> None:
    """Made between the reading and the writing."""
    from cli.customer.apply.document import read
    from cli.customer.apply.plan import plan_of
    from cli.customer.apply.wanted import asked_of
    from postdate import PreconditionFailed

    text = FILE.replace("${TOKEN}", "s3cret")
    apply(settings, text)
    changed = text.replace("rate: 100", "rate: 50").replace("0 9 *", "0 8 *")
    changed = (
        changed.replace("/ended?", "/other?") + '  new: {every: 1h, targetUrl: "http://x.org"}'
    )
    changed = changed.replace("billing-*", "billing-*, new, new-lane")
    changed = changed.replace("recurring:\n", "  new-lane: {parallelism: 1}\nrecurring:\n", 1)
    with (
        Postdate(settings["url"], settings["api_key"]) as client,
        Customer(settings["url"], settings["api_key"]) as customer,
    ):
        plan = plan_of(client, asked_of([read("f", changed.encode(), {})]), prune=False)
        client.change_account(callback_url="https://example.com/theirs")
        client.pause_lane("billing-partner")
        client.set_lane("new-lane", parallelism=7)
        client.pause_recurring("name:billing-report")
        client.put_recurring("new", "https://example.com/theirs", every="2h")
        theirs = state(settings)
        refused = []
        for step in plan.steps:
            if step.asks:
                with pytest.raises(PreconditionFailed):
                    step.done(client)
                refused.append(step.name)
        assert refused == ["", "billing-partner", "new-lane", "billing-report", "new"]
        assert state(settings) == theirs
        assert customer.get("/account").json()["callbackUrl"] == "https://example.com/theirs"


@pytest.mark.parametrize("why", ["unauthorized", "suspended"])
def test_a_key_that_may_not(
    settings: dict[str, str], postdate_up: PostdateProcess, why: str
) -> None:
    if why == "unauthorized":
        given = {**settings, "api_key": "pd_00_wrong"}
    else:
        given = settings
        accounts = postdate_json("account", "list", redis_url=postdate_up.redis_url)
        newest = accounts[-1]["accountId"]
        postdate_json("account", "suspend", newest, redis_url=postdate_up.redis_url)
    status, out, err = apply(given, FILE)
    assert (status, out) == (1, "")
    assert err.startswith(
        ("Error: Invalid or inactive API key.", "Error: This account is suspended;")
    )
