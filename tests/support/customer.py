"""A customer of a running Postdate: what the holder of an API key does, by HTTP."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import httpx

from scheduler.times import format_iso8601
from tests.support.waiting import DEADLINE_S, until


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def in_days(days: int) -> datetime:
    """So many days from now, to the whole second: a date that were written down would pass."""
    return datetime.now(UTC).replace(microsecond=0) + timedelta(days)


class Customer:
    """Schedules, cancels, and reads log, statistics and credits with one API key."""

    def __init__(self, base_url: str, key: str, account_id: str = "") -> None:
        self.base_url = base_url
        self.key = key
        self.account_id = account_id
        self._client = httpx.Client(
            base_url=base_url,
            headers={"x-api-key": key},
            timeout=DEADLINE_S * 2,
            verify=False,  # it speaks no TLS; whom the system trusts takes 20 ms to read
        )

    @property
    def headers(self) -> httpx.Headers:
        """Those of every request."""
        return self._client.headers

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self._client.get(path, params=query)

    def call(self, path: str, **fields: Any) -> httpx.Response:
        """POST of these fields to a path of the API."""
        return self._client.post(path, json=fields)

    def post(self, target: str, due_in_s: float = 0.0, **fields: Any) -> httpx.Response:
        """POST /schedule, due so much later than now unless `triggerAt` is given."""
        due = format_iso8601(now_ms() + round(due_in_s * 1000))
        return self._client.post(
            "/schedule", json={"targetUrl": target, "triggerAt": due, **fields}
        )

    def schedule(self, target: str, due_in_s: float = 0.0, **fields: Any) -> str:
        """Schedules a request, which must be accepted; returns its id."""
        return _accepted(self.post(target, due_in_s, **fields))

    def schedule_batch(self, payloads: list[dict[str, Any]]) -> list[str]:
        """Schedules as many as one request may, in one; returns their ids in order."""
        answer = self._client.post("/schedule/batch", json={"schedules": payloads})
        assert answer.status_code == 200, answer.text
        return [str(each["scheduleId"]) for each in answer.json()["schedules"]]

    def cancel(self, schedule_id: str) -> httpx.Response:
        return self._client.delete(f"/schedule/{schedule_id}")

    def change(self, schedule_id: str, **fields: Any) -> httpx.Response:
        return self._client.patch(f"/schedule/{schedule_id}", json=fields)

    def log(self, **query: Any) -> list[dict[str, Any]]:
        """Every entry that the query finds, of any status unless it names some, page by page."""
        query = {"status": "all"} | query
        entries: list[dict[str, Any]] = []
        cursor: dict[str, str] = {}
        while True:
            answer = self.get("/stats/logs", limit=100, **query, **cursor)
            assert answer.status_code == 200, answer.text
            page = answer.json()
            entries += page["logs"]
            if page["nextCursor"] is None:
                return entries
            cursor = {"cursor": page["nextCursor"]}

    def entries_of(self, schedule_id: str) -> list[dict[str, Any]]:
        return [entry for entry in self.log() if entry["scheduleId"] == schedule_id]

    def outcome(self, schedule_id: str, deadline_s: float = DEADLINE_S) -> dict[str, Any]:
        """The log entry of a schedule's end, of which there is one."""

        def ended() -> list[dict[str, Any]]:
            unended = ("scheduled", "retrying")
            return [e for e in self.entries_of(schedule_id) if e["status"] not in unended]

        [entry] = until(ended, f"the end of {schedule_id}", deadline_s)
        return dict(entry)

    def stats(self, **query: Any) -> dict[str, Any]:
        answer = self.get("/stats", **query)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def counts(self) -> tuple[int, int]:
        """How many were completed and how many failed, as the statistics have it."""
        stats = self.stats()
        assert stats["totalInvocations"] == (
            stats["successfulInvocations"] + stats["failedInvocations"]
        )
        return stats["successfulInvocations"], stats["failedInvocations"]

    def credits(self) -> int:
        answer = self.get("/stats/remaining-credits")
        assert answer.status_code == 200, answer.text
        return int(answer.json()["creditsRemaining"])

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _accepted(answer: httpx.Response) -> str:
    assert answer.status_code == 201, answer.text
    return str(answer.json()["scheduleId"])
