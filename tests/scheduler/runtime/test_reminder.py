from __future__ import annotations

import pytest

from scheduler.runtime.reminder import Reminder


def test_it_is_due_at_once_each_minute_and_anew_after_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s, reminder = 5.0, Reminder()
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    assert (reminder.end(), reminder.is_due(), reminder.is_due()) == (False, True, False)
    for now_s, due in ((64.9, False), (65.0, True), (124.9, False), (125.1, True)):  # noqa: B007
        assert reminder.is_due() == due
    assert (reminder.end(), reminder.end(), reminder.is_due()) == (True, False, True)
