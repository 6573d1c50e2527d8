"""`postdate callback`, and `--callback` of other commands."""

from __future__ import annotations

import pytest

from tests.cli.customer.test_lanes import said
from tests.cli.customer.test_lanes import settings as settings
from tests.support.servers import Receiver, postdate, postdate_json, until

HERE, THERE = "https://example.com/ended", "https://example.com/ended-too"
TARGET = "http://127.0.0.1:9999/callbacks"


def test_the_accounts_callback_is_set_shown_and_removed(settings: dict[str, str]) -> None:
    none = "No default callback.\n"
    assert said(settings, "callback", "show") == none
    told = f"ends are reported to {HERE}\n"
    assert said(settings, "callback", "set", HERE) == said(settings, "callback", "show") == told
    told = said(settings, "callback", "set", THERE, "--on", "failed")
    assert told == f"failures are reported to {THERE}\n"
    shown = postdate_json("callback", "show", **settings)
    assert (shown["callbackUrl"], shown["callbackOn"]) == (THERE, "failed")
    assert said(settings, "callback", "clear") == none


@pytest.mark.parametrize(
    ("options", "seen"),
    [
        ((), (None, None)),
        (("--callback", HERE), (HERE, "executed")),
        (("--callback", HERE, "--callback-on", "failed"), (HERE, "failed")),
        (("--callback", "none"), (None, None)),
    ],
)
def test_a_schedule_names_its_callback(
    settings: dict[str, str], options: tuple[str, ...], seen: tuple[str | None, str | None]
) -> None:
    made = postdate_json("schedule", TARGET, "--in", "1h", *options, **settings)["scheduleId"]
    found = postdate_json("get", made, **settings)
    assert (found["callbackUrl"], found["callbackOn"], found["callback"]) == (*seen, None)
    for option, after in (
        (("--callback", THERE, "--callback-on", "failed"), (THERE, "failed")),
        (("--clear", "callback-on"), (THERE, "executed")),
        (("--clear", "callback"), (None, None)),
        (("--callback", THERE), (THERE, "executed")),
        (("--callback", "none"), (None, None)),
    ):
        changed = postdate_json("change", made, *option, **settings)
        assert (changed["callbackUrl"], changed["callbackOn"]) == after


def stands(settings: dict[str, str], schedule_id: str) -> str:
    lines = said(settings, "get", schedule_id).splitlines()
    return next((line for line in lines if line.startswith("callback ")), "")


def test_a_callback_is_shown_and_sent_again(settings: dict[str, str], receiver: Receiver) -> None:
    gone = receiver.answer("/gone", status=410)
    made = postdate_json("schedule", gone, "--in", "0s", "--callback", gone, **settings)
    schedule_id = made["scheduleId"]
    until(lambda: "failed, 1 attempt: 410 Gone" in stands(settings, schedule_id))
    ended = receiver.answer("/ended")
    sent = said(settings, "callback", "resend", schedule_id, "--to", ended)
    assert sent.startswith(f"{schedule_id}  pending, 0 attempts, next at ")
    [report] = receiver.wait_for(1, "/ended")
    assert report.headers["webhook-id"] == schedule_id.replace("sch_", "cbk_")
    until(lambda: "delivered, 1 attempt: 200" in stands(settings, schedule_id))
    again = postdate("callback", "resend", "sch_1", **settings)
    assert (again.returncode, again.stderr) == (1, "There is no such schedule.\n")
