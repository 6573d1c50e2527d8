"""What a customer's commands send to a server, and what they print of its answer."""

from __future__ import annotations

import json
import shlex
from typing import Any, NamedTuple

import pytest

from tests.client.both import CREATED
from tests.client.line import Line, answer
from tests.client.test_lanes import LANE
from tests.client.test_operations import PENDING, SCHEDULE
from tests.client.test_recurring import CREATED as CREATED_RULE
from tests.client.test_recurring import RULE
from tests.support.servers import postdate

DUE, NEXT, NOON = "2026-11-20T08:00:00.000Z", "2026-11-24T08:00:00.000Z", "2026-11-23T12:00:00.000Z"
URL, ENDED = "https://example.com/hook", "https://example.com/ended"
CRON, ZONE = "'0 9 * * *'", "Europe/Berlin"
RULE_HEAD = "NEXT (UTC)           STATE   NAME OR ID  RULE                          REQUEST\n"
RULE_LINE = (
    "2026-11-24 08:00:00  active  report      At 09:00 on weekdays, Berlin"
    "  POST https://example.com/report\n"
)
PAUSED_RULE = RULE | {
    "state": "paused", "paused": True, "pausedUntil": NOON, "pausedBy": "ci",
    "pauseNote": "over Christmas", "nextAt": None, "scheduleId": None,
}  # fmt: skip
GOES_ON = {"paused": False}
PAUSED = {"paused": True, "pausedUntil": None, "pausedBy": "deploys", "pauseNote": "audit"}
ALL_PAUSED = "all schedules  paused by deploys: audit\n"
ACCOUNT = {**PAUSED, "plan": "free", "requestsPerSecond": 10, "storedBytes": 4096}
ACCOUNT |= {"storedBytesLimit": 10000, "creditsRemaining": 1200, "lanes": 3, "recurring": 0}
ACCOUNT_LINES = """plan free, 10 requests a second
1,200 credits left, 4,096 of 10,000 bytes stored, lanes: 3, recurring schedules: 0
"""
OPEN = {**LANE, "burst": 10, "parallelism": 5, "note": "as agreed", "paused": False}
OPEN |= {"state": "open", "due": 0, "oldestDueAt": None}
OPEN_LINE = """\
LANE       STATE  LIMITS                            RUNNING  WAITING  DUE  NOTE
partner:b  open   10 per 1m, burst 10, 5 at a time        1        7    0  as agreed
"""
PAUSED_LINES = """\
LANE       STATE   LIMITS     RUNNING  WAITING  DUE  SINCE (UTC)
partner:b  paused  10 per 1m        1        7    2  2026-11-23 12:00:00
    paused by ci until 2026-11-23 12:00:00: they move house
"""
LIMITS = "--rate 10 --per 1m --burst 10 --parallelism 5 --note 'as agreed'"
LIMITS_SENT = {"rate": 10, "per": "60000ms", "burst": 10, "parallelism": 5, "note": "as agreed"}
RETRIES = "--retries 5 --retry-delays '1h, 90s' --retry-on any --timeout 5 --label a --label 'b c'"
RETRIES_SENT = {"retries": 5, "retryDelays": ["3600000ms", "90000ms"], "timeout": "5000ms"}
RETRIES_SENT |= {"retryOn": "any", "labels": ["a", "b c"]}


class Call(NamedTuple):
    """`asked` is the first request; `printed` belongs to the answers, of which the last one is that
    to all others."""

    words: str
    asked: str
    sent: Any
    answers: tuple[Any, ...]
    printed: str | None


def of_lane(words: str, asked: str, sent: Any, lane: Any = OPEN, printed: str = OPEN_LINE) -> Call:
    """After it people are told whether all schedules are paused."""
    return Call(f"lane {words}", asked, sent, (lane, GOES_ON), printed)


GIVEN_UP = {"status": "failed", "attempts": 1, "statusCode": 410, "errorMessage": "Gone"}
CALLED_BACK = {**SCHEDULE, "status": "completed", "reference": "order-17", "callback": GIVEN_UP}
RESENT = {"schedules": [{"scheduleId": "sch_1", "callback": PENDING}], "nextCursor": None}


def of_change(options: str, **sent: Any) -> Call:
    return Call(f"change sch_1 {options}", "PATCH /schedule/sch_1", sent, (SCHEDULE,), None)


def of_rule(words: str, asked: str, body: Any = RULE, printed: str = RULE_HEAD + RULE_LINE) -> Call:
    return Call(f"recurring {words}", asked, ..., (body,), printed)


CALLS = [
    Call(
        f"schedule {URL} --delay 1h --body '{{\"n\": 1}}' --header X-A:1 {RETRIES}",
        "POST /schedule",
        {
            "targetUrl": URL, "delay": "3600000ms", "targetBody": {"n": 1},
            "targetHeaders": {"X-A": "1"}, **RETRIES_SENT,
        },
        ({**CREATED, "message": "Scheduled for then"},),
        "sch_1  Scheduled for then\n",
    ),
    *(
        Call(
            f"schedule {URL} --delay 1h --reference c --on-existing {word} --max-wait 30m",
            "POST /schedule",
            {
                "targetUrl": URL, "delay": "3600000ms", "reference": "c", "onExisting": word,
                "maxWait": "1800000ms",
            },
            ({**CREATED, "existing": True},),
            f"sch_1  It waited already and was {was}; it is due {DUE}\n",
        )
        for word, was in (("keep", "kept"), ("replace", "replaced"))
    ),
    *(
        Call(f"schedule {URL} --delay 1s {words}", "POST /schedule",
             {"targetUrl": URL, "delay": "1000ms", **sent}, (CREATED,), "sch_1  \n")
        for words, sent in (
            (f"--callback {ENDED} --callback-on failed",
             {"callbackUrl": ENDED, "callbackOn": "failed"}),
            ("--callback none", {"callbackUrl": None}),
        )
    ),
    of_change(f"--at {NOON} --target {URL}/2 --delivery at-most-once",
              triggerAt=NOON, targetUrl=f"{URL}/2", delivery="at-most-once"),
    of_change("--clear body --clear headers --clear timeout --clear lane --clear reference",
              targetBody=None, targetHeaders=None, timeout=None, lane=None, reference=None),
    of_change("--callback none --clear callback-on", callbackUrl=None, callbackOn=None),
    of_change("--clear callback", callbackUrl="default"),
    of_change("--callback default", callbackUrl="default"),
    Call("callback show", "GET /account", None, (GOES_ON,), "No default callback.\n"),
    *(
        Call(
            f"callback set {ENDED} --on {word}", "PATCH /account",
            {"callbackUrl": ENDED, "callbackOn": word},
            ({**GOES_ON, "callbackUrl": ENDED, "callbackOn": word},),
            f"{what} are reported to {ENDED}\n",
        )
        for word, what in (("executed", "ends"), ("failed", "failures"))
    ),
    Call("callback clear", "PATCH /account", {"callbackUrl": None}, (GOES_ON,),
         "No default callback.\n"),
    Call(f"callback send sch_1 --callback {ENDED}", "POST /schedule/sch_1/callback",
         {"callbackUrl": ENDED}, (PENDING,),
         f"sch_1  pending, 1 attempt: 503 Service Unavailable, next at {DUE}\n"),
    *(
        Call("callback send sch_1", "POST /schedule/sch_1/callback", {}, (PENDING | more,),
             f"sch_1  {told}\n")
        for more, told in (
            ({"attempts": 0}, f"pending, 0 attempts, next at {DUE}"),
            ({"status": "delivered", "statusCode": 200, "errorMessage": "", "nextAttemptAt": None},
             "delivered, 1 attempt: 200"),
        )
    ),
    Call("callback list", "GET /schedule?callback=failed&limit=21", None,
         ({"schedules": [CALLED_BACK], "nextCursor": None},),
         "CALLBACK  ATTEMPTS  ID     STATUS     REFERENCE  ANSWER\n"
         "failed           1  sch_1  completed  order-17   410 Gone\n"),
    Call("callback list --pending --lane a", "GET /schedule?lane=a&callback=pending&limit=21", None,
         ({"schedules": [], "nextCursor": None},), "No pending callbacks.\n"),
    Call("logs --callback failed", "GET /stats/logs?callback=failed&limit=20", None,
         ({"logs": [], "nextCursor": None},), "No entries.\n"),
    Call("callback send --failed --yes --lane a --limit 7", "POST /schedule/callback",
         {"lane": "a", "callback": "failed", "limit": 7}, (RESENT,),
         f"sch_1  pending, 1 attempt: 503 Service Unavailable, next at {DUE}\n"),
    Call("callback send --delivered --yes", "POST /schedule/callback",
         {"callback": "delivered", "limit": 1000}, ({"schedules": [], "nextCursor": None},),
         "No delivered callback matches.\n"),
    of_lane(f"set partner:b {LIMITS}", "PUT /lanes/partner:b", LIMITS_SENT),
    of_lane("show partner:b", "GET /lanes/partner:b", None),
    of_lane("resume partner:b --calm", "PATCH /lanes/partner:b",
            {"paused": False, "calmUntil": None}),
    of_lane("pause partner:b --until 2026-11-23T12:00Z --note 'they move house'",
            "POST /lanes/partner:b/pause",
            {"pausedUntil": "2026-11-23T12:00Z", "pauseNote": "they move house"},
            {**LANE, "pauseNote": "they move house"}, PAUSED_LINES),
    of_lane("resume partner:b", "POST /lanes/partner:b/resume", None),
    of_lane("list", "GET /lanes?limit=100", None, {"lanes": [OPEN], "nextCursor": None}),
    of_lane("list", "GET /lanes?limit=100", None, {"lanes": [], "nextCursor": None}, "No lanes.\n"),
    Call("lane clear partner:b", "DELETE /lanes/partner:b", None,
         ({"lane": "partner:b", "waiting": 0, "message": "Cleared; nothing waits in it"},),
         "partner:b  Cleared; nothing waits in it\n"),
    Call("lane pause --all --note audit", "POST /account/pause",
         {"pausedUntil": None, "pauseNote": "audit"}, (PAUSED,), ALL_PAUSED),
    Call("lane show --all", "GET /account", None, (ACCOUNT,), ALL_PAUSED + ACCOUNT_LINES),
    Call("lane resume --all", "POST /account/resume", None, (GOES_ON,),
         "all schedules  not paused\n"),
    of_rule("create https://example.com --every 15m", "POST /recurring",
            {**CREATED_RULE, "message": "Next at noon"}, "rec_1  Next at noon\n"),
    of_rule(f"create https://x.org --cron {CRON} --name a:b --or-change",
            "PUT /recurring/by-name/a:b", printed=f"DONE     {RULE_HEAD}changed  {RULE_LINE}"),
    Call("recurring pause rec_1 --until 2026-11-23T12:00Z --note 'over Christmas'",
         "POST /recurring/rec_1/pause",
         {"pausedUntil": "2026-11-23T12:00Z", "pauseNote": "over Christmas"}, (PAUSED_RULE,),
         "STATE   NAME OR ID  RULE                          REQUEST                          NOTE\n"
         "paused  report      At 09:00 on weekdays, Berlin  POST https://example.com/report"
         "  paused by ci until 2026-11-23 12:00:00: over Christmas\n"),
    of_rule("resume rec_1", "POST /recurring/rec_1/resume"),
    of_rule("trigger rec_1", "POST /recurring/rec_1/trigger",
            {"scheduleId": "sch_2", "invocationId": "inv_2", "triggerAt": NEXT, "message": "Now"},
            "sch_2  Now\n"),
    of_rule("delete rec_1", "DELETE /recurring/rec_1",
            {"recurringId": "rec_1", "creditsRemaining": 5, "message": "Deleted"},
            "rec_1  Deleted\n"),
    of_rule(f"preview --cron {CRON} --time-zone {ZONE}",
            "GET /recurring/preview?cron=0+9+%2A+%2A+%2A&timeZone=Europe%2FBerlin",
            {"next": [NEXT], "description": "At 09:00, Berlin"},
            "At 09:00, Berlin\n\nDUE (UTC)            DUE (Europe/Berlin)\n"
            "2026-11-24 08:00:00  Tue 2026-11-24 09:00:00 CET\n"),
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.words)
def test_a_command_is_one_call(call: Call) -> None:
    with Line(*(answer(200, each) for each in call.answers)) as line:
        printed = said(line, *shlex.split(call.words))
    assert line.requests[0] == f"{call.asked} HTTP/1.1"
    assert call.sent in (line.bodies[0], ...)
    assert call.printed in (printed, None)


def said(line: Line, *words: str, more: str = "") -> str:
    done = postdate(*words, url=line.url, api_key="pd_00_key")
    assert (done.returncode, done.stderr) == (0, more)
    return done.stdout


def fields_of(text: str) -> dict[str, str]:
    return dict(each.split(maxsplit=1) for each in text.splitlines())


def test_a_schedule_is_shown_by_the_fields_that_say_something() -> None:
    found = {
        **SCHEDULE, "reference": "order-1", "retries": 5, "retryDelays": ["1h", "1m30s"],
        "attempts": 0, "replayable": False, "notReplayableReason": "body_not_kept",
        "phases": {"connectionReused": True, "firstByteMs": 1204}, "callback": PENDING,
    }  # fmt: skip
    with Line(answer(200, found), answer(200, found | {"status": "cancelled"})) as line:
        waiting, ended = (fields_of(said(line, "get", "sch_1")) for _ in range(2))
    assert waiting == {
        "scheduleId": "sch_1", "invocationId": "inv_1", "status": "scheduled", "createdAt": DUE,
        "triggerAt": DUE, "targetUrl": URL, "targetMethod": "POST", "targetHeaders": '{"X-A": "1"}',
        "targetBody": '{"n": 1}', "delivery": "at-least-once", "timeout": "30s",
        "reference": "order-1",
        "retries": "5", "retryDelays": '["1h", "1m30s"]', "retryOn": "transient",
        "phases": "connection reused, first byte 1,204 ms",
        "callback": f"pending, 1 attempt: 503 Service Unavailable, next at {DUE}",
    }  # fmt: skip
    assert ended == waiting | {"status": "cancelled", "notReplayableReason": "body_not_kept"}


def test_lists_name_references_and_lanes_and_tell_what_became_of_each() -> None:
    one = {**SCHEDULE, "reference": "order-1", "lane": "acme"}
    failed = {**SCHEDULE, "status": "failed", "errorMessage": "Gone", "executedAt": NOON}
    page = {"schedules": [one, failed, one], "nextCursor": None}
    with Line(answer(200, page)) as line:
        words = ("list", "--reference", "order-*", "--limit", "2")
        listed = said(line, *words, more="There are more: --limit 10 shows them.\n").splitlines()
    assert line.requests == ["GET /schedule?reference=order-%2A&limit=3 HTTP/1.1"]
    assert listed[0].split("  ")[0] == "DUE (UTC)"
    assert listed[1:] == [
        f"2026-11-20 08:00:00  scheduled  sch_1  POST {URL}  order-1    acme",
        f"2026-11-23 12:00:00  failed     sch_1  POST {URL}                   Gone",
    ]


def test_it_is_told_what_holds_those_that_are_due() -> None:
    by_pause = {"cause": "lane_paused", "lane": "eu", "until": NOON, "estimated": False, "ahead": 3}
    by_rate = {"cause": "lane_rate", "lane": "us", "until": DUE, "estimated": True, "ahead": 1}
    by_hold = {"cause": "service_hold", "lane": None, "until": None, "estimated": False}
    newer = by_hold | {"cause": "moon_phase"}
    held = [{**SCHEDULE, "heldBy": each} for each in (by_pause, by_rate, by_hold, newer)]
    with Line(answer(200, {"schedules": held, "nextCursor": None}), answer(200, held[0])) as line:
        listed = said(line, "list", "--held").splitlines()
        shown = fields_of(said(line, "get", "sch_1"))
    assert line.requests[0] == "GET /schedule?held=true&limit=21 HTTP/1.1"
    words = ["waits: paused until 2026-11-23 12:00:00, 3 before it"]
    words.append("waits: its rate is used up, 1 before it, about 2026-11-20 08:00:00")
    words += ["waits: the service is on hold", "waits: moon_phase"]
    row = f"2026-11-20 08:00:00  held    sch_1  POST {URL}  "
    assert listed[1:] == [row + each for each in words]
    assert shown["heldBy"] == f"waits for lane eu: paused until {NOON}, 3 before it"


def test_of_those_that_match_occurrences_of_recurring_schedules_are_told_of_and_left() -> None:
    """Before it is asked whether the others are meant, and after, if it is another number then."""
    occurrence = {**SCHEDULE, "recurringId": "rec_1", "slot": DUE, "attempts": 0}
    triggered = {**SCHEDULE, "recurringId": "rec_1", "slot": None}
    attempted = occurrence | {"attempts": 1}
    left = "2 belong to recurring schedules and stay: pause those instead."
    one = "1 belongs to a recurring schedule and stays: pause that instead.\n"

    def cancelled(*listed: Any, words: str = f"--target {URL}", left: int = 0) -> tuple[Any, ...]:
        item = {"scheduleId": "sch_1", "status": "cancelled"}
        done = {"schedules": [item], "creditsRemaining": 9, "occurrencesLeft": left}
        pages = [{"schedules": listed, "nextCursor": None}, {**done, "nextCursor": None}]
        if "--yes" in words:
            del pages[0]
        with Line(*(answer(200, each) for each in pages)) as line:
            where = {"url": line.url, "api_key": "pd_00_key"}
            done = postdate("cancel", *words.split(), stdin="y\n", **where)
        return done.returncode, done.stdout, done.stderr.partition("[y/N]")

    gone = "sch_1  Cancelled  9 credits\n"
    none = (0, "Nothing that waits matches.\n", (f"{left}\n", "", ""))
    assert cancelled(occurrence, occurrence) == none
    found = (triggered, attempted, occurrence, occurrence)
    asked = f"Cancel 2 that wait? {left} "
    assert cancelled(*found, left=2) == (0, gone, (asked, "[y/N]", ": y\n"))
    assert cancelled(*found, left=1)[2] == (asked, "[y/N]", f": y\n{one}")
    assert cancelled(words=f"--target {URL} --yes", left=1) == (0, gone, (one, "", ""))
    by_rule = cancelled(occurrence, words="--recurring rec_1")
    assert by_rule == (0, gone, ("Cancel 1 that wait? ", "[y/N]", ": y\n"))


def test_one_is_shown_by_its_name() -> None:
    with Line(*[answer(200, RULE)] * 2) as line:
        fields = fields_of(said(line, "recurring", "show", "report"))
        assert fields_of(said(line, "recurring", "show", "name:report")) == fields
    assert line.requests == ["GET /recurring/name:report HTTP/1.1"] * 2
    assert (fields["next"], fields["expiresAfter"]) == (f"{NEXT}, 2026-11-25T08:00:00.000Z", "1h")
    assert not fields.keys() & {"missed", "every", "reason"}


def test_they_are_listed_with_why_one_is_blocked() -> None:
    blocked = {**RULE, "state": "blocked", "reason": "Insufficient credits", "missed": 1200}
    page = {"recurring": [RULE, {**blocked, "nextAt": None, "name": None}], "nextCursor": None}
    with Line(answer(200, page)) as line:
        _, first, second = said(line, "recurring", "list", "--state", "active").splitlines()
    assert first == RULE_LINE[:-1].replace("active ", "active  ")
    assert second.startswith(f"{'':19}  blocked  rec_1       At 09:00 ")
    assert second.endswith("  Insufficient credits, 1,200 missed")


def test_for_machines_it_prints_the_answer() -> None:
    with Line(answer(200, RULE)) as line:
        shown = json.loads(said(line, "recurring", "show", "rec_1", "--json"))
    assert RULE.items() <= shown.items()


def test_a_log_has_a_line_for_each_attempt_and_says_what_was_missed() -> None:
    skipped = {
        "invocationId": "", "scheduleId": "", "createdAt": NEXT, "scheduledAt": NEXT,
        "executedAt": None, "targetUrl": URL, "targetMethod": "POST", "status": "skipped",
        "statusCode": 0, "responseTimeMs": 0, "errorMessage": "", "recurringId": "rec_1",
        "missed": 1200,
    }  # fmt: skip
    retrying = {
        **skipped, "scheduleId": "sch_1", "executedAt": DUE, "status": "retrying", "attempt": 1,
        "statusCode": 503, "responseTimeMs": 41, "errorMessage": "Busy", "nextAttemptAt": NOON,
        "reference": "order-1", "lane": "acme", "labels": ["eu", "a b"], "latenessMs": 3,
        "responseBody": "later\a", "phases": {"connectionReused": True, "firstByteMs": 1204},
    }  # fmt: skip
    pages = [
        {"logs": each, "nextCursor": None} for each in ([skipped, retrying], [retrying, skipped])
    ]
    with Line(*(answer(200, each) for each in pages)) as line:
        logged = said(line, "logs", "--recurring", "rec_1", "--status", "skipped,retrying")
        attempts = said(line, "logs", "sch_1", "--status", "all")
    head, missed, told = logged.splitlines(keepends=True)
    heads = "TIME (UTC) STATUS CODE MS ID REQUEST REFERENCE LANE LABELS NOTE"
    assert head.split() == heads.split()
    row = f"2026-11-20 08:00:00  retrying   503  41  sch_1  POST {URL}  order-1    acme  eu, a b  "
    assert told == f"{row}Busy, attempt 2 at 2026-11-23 12:00:00\n"
    assert missed.split() == ["2026-11-24", "08:00:00", "skipped", "rec_1", "1,200", "missed"]
    more = ["3 ms late", "connection reused, first byte 1,204 ms", '"later\\u0007"']
    assert attempts == head + told + "".join(f"    {each}\n" for each in more) + missed
    asked, of_one = line.requests
    query = asked.partition("?")[2].removesuffix(" HTTP/1.1").split("&")
    assert {"recurringId=rec_1", "status=skipped%2Cretrying"} <= set(query)
    assert "scheduleId=sch_1&status=all" in of_one


def test_a_pause_of_all_schedules_is_told_beside_a_lane() -> None:
    with Line(answer(200, OPEN), answer(200, PAUSED)) as line:
        assert said(line, "lane", "show", "partner:b", more=ALL_PAUSED) == OPEN_LINE


def test_a_name_that_there_is_not_is_told() -> None:
    missing = {"error": "There is no such recurring schedule", "reason": "unknown_recurring"}
    with Line(answer(404, missing)) as line:
        done = postdate("recurring", "pause", "other", url=line.url, api_key="pd_00_key")
    assert (done.returncode, done.stderr) == (1, "Error: There is no such recurring schedule.\n")
