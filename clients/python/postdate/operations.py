"""What a client can do: each operation once, for both clients."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal, Unpack

from postdate._schema import FILTERS, CreateOptions, Filters
from postdate.arguments import (
    boolean,
    duration,
    function,
    octets,
    path_part,
    text,
    words,
    written,
)
from postdate.calls import Many, as_json, read_one
from postdate.checks import key_of
from postdate.errors import PostdateError
from postdate.lanes import LaneOperations
from postdate.modes import listing, operation
from postdate.new import ChangeOptions, NewSchedule, changes
from postdate.recurring import RecurringOperations
from postdate.results import (
    Callback,
    CallbackStatus,
    Cancelled,
    CancelledMany,
    Created,
    LogEntry,
    LogFilter,
    Replayed,
    Resent,
    Schedule,
    SigningSecret,
    Stats,
    StatusFilter,
    read,
    read_entry,
    read_schedule,
    read_secrets,
    read_stats,
)

_WAITING, _FAILED = ("status", "scheduled"), ("status", "failed")
_CANCEL = Many(Cancelled, "/schedule/cancel", "scheduleId", _WAITING, ("creditsRemaining",))
_REPLAY = Many(Replayed, "/schedule/replay", "replayOf", _FAILED)
_RESEND = Many(Resent, "/schedule/callback", "scheduleId", ("callback", "failed"))


class Operations(LaneOperations, RecurringOperations):
    """The methods of `Postdate` and `AsyncPostdate`. All raise PostdateError."""

    @operation
    async def schedule(
        self,
        url: str,
        *,
        idempotency_key: str | None = None,
        **options: Unpack[CreateOptions],
    ) -> Created:
        """Has `url` called at a chosen time; takes one credit.

        Say when with `at` (a datetime with a time zone, or ISO 8601 text), `in_` (a timedelta or
        seconds from now, by this machine's clock) or `delay` ("10s", "1h30m", a timedelta or
        seconds, by the server's clock). The body is `json` (an object), `text` or `data` (bytes);
        the method is POST with a body, else GET. A failed attempt is repeated up to `retries`
        times, after `retry_delays`. One attempt takes at most `timeout`, whole seconds from 1 to
        30. A request to `callback_url` reports the end: see `ScheduleEnded`. `CreateOptions` has
        all options. The same `idempotency_key` within 24 hours stores nothing twice.
        """
        key = key_of(idempotency_key)
        body = as_json(NewSchedule(url, **options).payload())
        answer = await self._call("POST", "/schedule", body=body, idempotency_key=key)
        return answer.read_as(lambda body: read(Created, {**body, "replayed": answer.replayed}))

    @operation
    async def schedule_batch(
        self, new: Iterable[NewSchedule | bytes], *, idempotency_key: str | None = None
    ) -> tuple[Created | PostdateError, ...]:
        """Schedules 1 to 1,000 at once: each a NewSchedule, or a JSON object for the API as bytes.

        Returns one result for each, in order: what `schedule` would have returned, or the error
        that it would have raised.
        """
        key = key_of(idempotency_key)
        items = [_item(f"new[{number}]", each) for number, each in enumerate(new)]
        content = b'{"schedules": [' + b", ".join(items) + b"]}"
        answer = await self._call("POST", "/schedule/batch", body=content, idempotency_key=key)
        return answer.read_as(
            lambda body: tuple(
                read_one(Created, {**item, **answer.of_all}) for item in body["schedules"]
            )
        )

    @operation
    async def get(self, schedule_id: str) -> Schedule:
        """The schedule as it stands; NotFound a day after it has ended."""
        answer = await self._call("GET", _path(schedule_id))
        return answer.read_tagged_as(read_schedule)

    @listing
    def list(
        self,
        *,
        status: StatusFilter | Sequence[StatusFilter] | None = None,
        callback: CallbackStatus | None = None,
        limit: int | None = None,
        order: Literal["asc", "desc"] | None = None,
        held: bool | None = None,
        **filters: Unpack[Filters],
    ) -> AsyncGenerator[Schedule, None]:
        """Waiting ones by trigger time; with `held` of these only due ones that something keeps
        from starting, with False only others. With the status "failed", failed ones not replayed,
        by their end; with any other, or several, all of those that are kept, by when they ended or
        are due. "executed" means completed and failed. But for those that wait, newest first unless
        `order` is "asc". Of a `reference`, or of all that begin as "order-*" says, the waiting ones
        come by reference. With `callback` those whose callback stands so: pending ones by when they
        are sent next, failed ones by when they failed. At most `limit`, page by page."""
        query = _filters(filters, status=status, callback=callback, order=order, held=held)
        return self._pages("/schedule", query, "schedules", read_schedule, limit)

    @operation
    async def change(
        self,
        schedule_id: str,
        *,
        if_match: str | None = None,
        **options: Unpack[ChangeOptions],
    ) -> Schedule:
        """Changes the given fields, each as a whole; None clears one. The id stays. `if_match` is
        the `etag` of an earlier answer: PreconditionFailed is raised, and nothing is changed, if it
        is another by now.

        Raises Conflict if it no longer waits; with `maybe_done` the change may have been made.
        """
        body = as_json(changes(options))
        answer = await self._call("PATCH", _path(schedule_id), body=body, if_match=if_match)
        return answer.read_tagged_as(read_schedule)

    @operation
    async def cancel(self, schedule_id: str, *, if_match: str | None = None) -> Cancelled:
        """Cancels it and refunds its credit once; one that was attempted is stopped as failed,
        without a refund. Safe to repeat. Raises Conflict if it was executed or a worker has it;
        `if_match` as in `change`."""
        answer = await self._call("DELETE", _path(schedule_id), if_match=if_match)
        return answer.read_as(partial(read, Cancelled))

    @operation
    async def cancel_many(
        self,
        schedule_ids: Iterable[str] | None = None,
        *,
        limit: int | None = None,
        held: bool | None = None,
        on_results: Callable[[Sequence[Cancelled | PostdateError]], None] | None = None,
        **filters: Unpack[Filters],
    ) -> CancelledMany:
        """Cancels these, however many, or all that wait and match, by trigger time; `held` as in
        `list`. Safe to repeat.

        Returns for each id given, in order, what `cancel` would have returned, or the error that it
        would have raised, with its `schedule_id`. Without `recurring_id` a filter leaves out the
        next occurrences of recurring schedules, and `occurrences_left` counts them. `on_results`
        gets them as they come, up to a thousand at a time, and so before an error that ends it.
        """
        function("on_results", on_results)
        matching, many = _filters(filters, held=held), replace(_CANCEL, tell=on_results)
        return CancelledMany(*await self._each(many, schedule_ids, matching, limit))

    @operation
    async def replay(
        self,
        schedule_id: str,
        *,
        idempotency_key: str | None = None,
        **options: Unpack[ChangeOptions],
    ) -> Replayed:
        """Makes a new schedule of one that has ended, due now; takes one credit. Given options
        replace the old ones, as in `change`.

        The same `idempotency_key` within 24 hours replays nothing twice. Raises Conflict if it has
        not ended, or if it was cancelled without keeping its body.
        """
        answer = await self._call(
            "POST",
            _path(schedule_id) + "/replay",
            body=as_json(changes(options)),
            idempotency_key=key_of(idempotency_key),
        )
        return answer.read_as(lambda body: read(Replayed, {**body, "replayed": answer.replayed}))

    @operation
    async def resend_callback(
        self, schedule_id: str, *, callback_url: str | None = None
    ) -> Callback:
        """Reports once more how a schedule ended: to `callback_url` ("default": the account's), or
        where it was to go. Returns how that stands.

        Raises Conflict with the reason "callback_pending" while a report is on its way, also if an
        earlier attempt of this call has begun it; and if it has not ended, or was cancelled.
        """
        body = {} if callback_url is None else {"callbackUrl": text("callback_url", callback_url)}
        path = _path(schedule_id) + "/callback"
        answer = await self._call("POST", path, body=as_json(body))
        return answer.read_as(partial(read, Callback))

    @operation
    async def resend_callbacks(
        self,
        schedule_ids: Iterable[str] | None = None,
        *,
        callback: Literal["failed", "delivered"] | None = None,
        limit: int | None = None,
        on_results: Callable[[Sequence[Resent | PostdateError]], None] | None = None,
        **filters: Unpack[Filters],
    ) -> tuple[Resent | PostdateError, ...]:
        """Reports once more how these ended, or all that match and whose callback has failed, up to
        now, or was `delivered`. They are sent at 50 a second.

        Returns for each id given, in order, a Resent, or the error with its `schedule_id`:
        RateLimited for those beyond the next 20 seconds of the account's rate. `on_results` as in
        `cancel_many`.
        """
        function("on_results", on_results)
        many = replace(_RESEND, tell=on_results)
        if callback is not None:
            if schedule_ids is not None:
                raise ValueError("Give either ids or what to choose by, not both.")
            many = replace(many, listed=("callback", text("callback", callback)))
        done = await self._each(many, schedule_ids, _filters(filters), limit)
        return tuple(done[0])

    @operation
    async def replay_many(
        self,
        schedule_ids: Iterable[str] | None = None,
        *,
        limit: int | None = None,
        idempotency_key: str | None = None,
        on_results: Callable[[Sequence[Replayed | PostdateError]], None] | None = None,
        **filters: Unpack[Filters],
    ) -> tuple[Replayed | PostdateError, ...]:
        """Replays these, however many, each at most once; or all that failed up to now and match,
        the oldest first.

        Returns for each id given, in order, a Replayed, or the error with its `schedule_id`. The
        same `idempotency_key` within 24 hours returns the same. `on_results` as in `cancel_many`.
        """
        function("on_results", on_results)
        key, many = key_of(idempotency_key), replace(_REPLAY, tell=on_results)
        done = await self._each(many, schedule_ids, _filters(filters), limit, key)
        return tuple(done[0])

    @listing
    def logs(
        self,
        *,
        schedule_id: str | None = None,
        status: LogFilter | Sequence[LogFilter] | None = None,
        callback: CallbackStatus | None = None,
        limit: int | None = None,
        order: Literal["asc", "desc"] | None = None,
        **filters: Unpack[Filters],
    ) -> AsyncGenerator[LogEntry, None]:
        """The log, newest first unless `order` is "asc"; with `schedule_id` the entries of one
        schedule, the oldest first; of one status or several, "executed" being completed and failed;
        with `callback` ends whose callback stands so. Those that are retrying or skipped come only
        if `status` names them or is "all". At most `limit` entries, page by page."""
        query = _filters(
            filters, schedule_id=schedule_id, status=status, callback=callback, order=order
        )
        return self._pages("/stats/logs", query, "logs", read_entry, limit)

    @operation
    async def stats(
        self, *, from_: datetime | str | None = None, to: datetime | str | None = None
    ) -> Stats:
        """Executions counted; of the last 30 days by default."""
        answer = await self._call("GET", "/stats", query=_filters({"from_": from_, "to": to}))
        return answer.read_as(read_stats)

    @operation
    async def credits(self) -> int:
        """How many credits are left."""
        return await self._credits()

    @operation
    async def signing(self) -> tuple[SigningSecret, ...]:
        """The secrets that sign requests, the newest first."""
        return (await self._call("GET", "/signing")).read_as(read_secrets)

    @operation
    async def rotate_signing(
        self,
        *,
        keep_for: timedelta | float | str | None = None,
        idempotency_key: str | None = None,
    ) -> tuple[SigningSecret, ...]:
        """Makes a new signing secret and returns all, the newest first. Older ones stay good for
        `keep_for` ("1d", a timedelta or seconds; at most seven days, by default one). The same
        `idempotency_key` within 24 hours makes no further one."""
        body = {} if keep_for is None else {"keepFor": duration("keep_for", keep_for)}
        answer = await self._call(
            "POST",
            "/signing/rotate",
            body=as_json(body),
            idempotency_key=key_of(idempotency_key),
        )
        return answer.read_as(read_secrets)

    async def _credits(self) -> int:
        answer = await self._call("GET", "/stats/remaining-credits")
        return answer.read_as(lambda body: int(body["creditsRemaining"]))


def _item(name: str, new: object) -> bytes:
    return as_json(new.payload()) if isinstance(new, NewSchedule) else octets(name, new)


def _path(schedule_id: str) -> str:
    return "/schedule/" + path_part("schedule_id", schedule_id)


_OF_LISTS = {
    "status": ("status", words),
    "callback": ("callback", text),
    "order": ("order", text),
    "schedule_id": ("scheduleId", path_part),
    "held": ("held", boolean),
}


def _filters(filters: Filters, **of_lists: Any) -> dict[str, str | bool | None]:
    return written(filters, FILTERS) | written(of_lists, _OF_LISTS)
