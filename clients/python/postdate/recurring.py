"""Recurring schedules: each operation once, for both clients."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal, TypeAlias, Unpack

from postdate import arguments as kinds
from postdate._schema import RequestFields, RequestOptions
from postdate.arguments import path_part, written
from postdate.calls import Calls, Response, as_json
from postdate.checks import key_of
from postdate.lanes import PAUSES, PauseOptions, pause_body
from postdate.modes import listing, operation
from postdate.new import changes
from postdate.results import Created, read

RecurringState: TypeAlias = Literal["active", "paused", "blocked", "ended"]


@dataclass(frozen=True, slots=True)
class Recurring(RequestFields):
    """A recurring schedule as it stands: its rule, `cron` or `every`, and its request, as a
    Schedule has it. `description` is the rule in words. `schedule_id` is the occurrence that waits,
    `next_at` its time. `paused_by` is the name of an API key, or "dashboard". `reason` is why it is
    blocked or has ended; `missed` counts the times that it has missed since it was blocked last.
    `next` are the next times of one that was asked for by its id. `etag` is for `if_match`; None in
    a list."""

    recurring_id: str
    state: RecurringState
    description: str
    created_at: datetime
    name: str | None = None
    cron: str | None = None
    every: str | None = None
    time_zone: str = "UTC"
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    expires_after: str | None = None
    reason: str | None = None
    paused: bool = False
    paused_until: datetime | None = None
    paused_by: str | None = None
    pause_note: str | None = None
    next_at: datetime | None = None
    schedule_id: str | None = None
    missed: int = 0
    next: Sequence[datetime] = ()
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class PutRecurring(Recurring):
    """The same, and what `put_recurring` did: `created` it, or found it `unchanged`."""

    created: bool = False
    unchanged: bool = False


@dataclass(frozen=True, slots=True)
class CreatedRecurring:
    """`schedule_id` is its first occurrence, due at `next_at`. `replayed`: by an earlier request
    with the same idempotency key."""

    recurring_id: str
    schedule_id: str | None
    next_at: datetime | None
    message: str = ""
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class DeletedRecurring:
    """The occurrence that waited was cancelled, and its credit refunded."""

    recurring_id: str
    credits_remaining: int
    message: str = ""


@dataclass(frozen=True, slots=True)
class Preview:
    """The next times of a rule, and the rule in words."""

    next: Sequence[datetime]
    description: str


class RuleOptions(RequestOptions, total=False):
    """Options of a recurring schedule but its name: `cron` (five fields) or `every` ("15m", a
    timedelta or seconds; from `starts_at` or the creation on), `time_zone` ("Europe/Berlin"), the
    first and the last moment, and how late an occurrence may still start."""

    cron: str | None
    every: timedelta | float | str | None
    time_zone: str | None
    starts_at: datetime | str | None
    ends_at: datetime | str | None
    expires_after: timedelta | float | str | None


class RecurringOptions(RuleOptions, total=False):
    """Options of `create_recurring`; the name is unique in the account."""

    name: str | None


class RecurringChangeOptions(RecurringOptions, PauseOptions, total=False):
    """Options of `change_recurring`. Those that are not given stay; None clears one."""

    url: str
    paused: bool


_RULE = {
    "name": ("name", kinds.text),
    "cron": ("cron", kinds.text),
    "every": ("every", kinds.duration),
    "time_zone": ("timeZone", kinds.text),
    "starts_at": ("startsAt", kinds.moment),
    "ends_at": ("endsAt", kinds.moment),
    "expires_after": ("expiresAfter", kinds.duration),
}
# Filters of `recurring_all`.
_CHOSEN = {"name": ("name", kinds.path_part), "state": ("state", kinds.text)}


class RecurringOperations(Calls):
    """All are safe to repeat, and raise PostdateError. A `recurring_id` may be "name:report": then
    the one is meant that has the name when the call begins. `if_match` is the `etag` of an earlier
    answer: PreconditionFailed is raised, and nothing is changed, if it is another by now."""

    @operation
    async def create_recurring(
        self, url: str, *, idempotency_key: str | None = None, **options: Unpack[RecurringOptions]
    ) -> CreatedRecurring:
        """Has `url` called again and again; takes one credit for each occurrence, when it is made.
        The same `idempotency_key` within 24 hours stores nothing twice."""
        answer = await self._call(
            "POST", "/recurring", body=_new(url, options), idempotency_key=key_of(idempotency_key)
        )
        return answer.read_as(
            lambda body: read(CreatedRecurring, {**body, "replayed": answer.replayed})
        )

    @operation
    async def put_recurring(
        self,
        name: str,
        url: str,
        *,
        if_match: str | None = None,
        if_none_match: str | None = None,
        **options: Unpack[RuleOptions],
    ) -> PutRecurring:
        """Creates the one of this name, or gives it these settings as a whole; if it has them
        already, nothing moves, and it is `unchanged`. For deploys. With `if_none_match="*"` it only
        creates one."""
        path = "/recurring/by-name/" + path_part("name", name)
        body = _new(url, options)
        answer = await self._call(
            "PUT", path, body=body, if_match=if_match, if_none_match=if_none_match
        )
        more = {"etag": answer.headers.get("etag"), "created": answer.status == 201}
        return answer.read_as(
            lambda body: read(PutRecurring, {**body, **more, "next": _moments(body)})
        )

    @operation
    async def recurring(self, recurring_id: str) -> Recurring:
        """As it stands, with its next five times."""
        return _recurring(await self._call("GET", _path(recurring_id)))

    @listing
    def recurring_all(
        self,
        *,
        name: str | None = None,
        state: RecurringState | None = None,
        limit: int | None = None,
    ) -> AsyncGenerator[Recurring, None]:
        """All, in the order of their creation, or the one of this name. At most `limit`, page by
        page."""
        query = written({"name": name, "state": state}, _CHOSEN)
        return self._pages("/recurring", query, "recurring", _read, limit)

    @operation
    async def change_recurring(
        self,
        recurring_id: str,
        *,
        if_match: str | None = None,
        **options: Unpack[RecurringChangeOptions],
    ) -> Recurring:
        """Changes the given settings, each as a whole; None clears one. The occurrence that waits
        is changed with it, or the one after it if a worker has that."""
        body, path = as_json(_written(options)), _path(recurring_id)
        return _recurring(await self._call("PATCH", path, body=body, if_match=if_match))

    @operation
    async def pause_recurring(
        self, recurring_id: str, *, if_match: str | None = None, **pause: Unpack[PauseOptions]
    ) -> Recurring:
        """Cancels the occurrence that waits, refunds it, and makes none until it is resumed, or
        until the end that is given."""
        path, body = _path(recurring_id) + "/pause", pause_body(pause)
        return _recurring(await self._call("POST", path, body=body, if_match=if_match))

    @operation
    async def resume_recurring(
        self, recurring_id: str, *, if_match: str | None = None
    ) -> Recurring:
        """Makes the next occurrence. Times of the pause are not made up for."""
        path = _path(recurring_id) + "/resume"
        return _recurring(await self._call("POST", path, if_match=if_match))

    @operation
    async def trigger_recurring(
        self,
        recurring_id: str,
        *,
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> Created:
        """Has it called once now, besides its own times; takes one credit. The same
        `idempotency_key` within 24 hours does so once."""
        path, key = _path(recurring_id) + "/trigger", key_of(idempotency_key)
        answer = await self._call("POST", path, idempotency_key=key, if_match=if_match)
        return answer.read_as(lambda body: read(Created, {**body, "replayed": answer.replayed}))

    @operation
    async def delete_recurring(
        self, recurring_id: str, *, if_match: str | None = None
    ) -> DeletedRecurring:
        """Deletes it, and cancels and refunds the occurrence that waits; one that a worker has is
        still sent. Raises NotFound if there is none; with `maybe_done` this call may have deleted
        it."""
        answer = await self._call("DELETE", _path(recurring_id), if_match=if_match)
        return answer.read_as(partial(read, DeletedRecurring))

    @operation
    async def preview_recurring(
        self,
        *,
        cron: str | None = None,
        every: timedelta | float | str | None = None,
        time_zone: str | None = None,
        starts_at: datetime | str | None = None,
        ends_at: datetime | str | None = None,
    ) -> Preview:
        """The next ten times of such a rule, and the rule in words. Stores nothing."""
        given: dict[str, Any] = {
            "cron": cron,
            "every": every,
            "time_zone": time_zone,
            "starts_at": starts_at,
            "ends_at": ends_at,
        }
        query = written({name: v for name, v in given.items() if v is not None}, _RULE)
        answer = await self._call("GET", "/recurring/preview", query=query)
        return answer.read_as(lambda body: read(Preview, {**body, "next": _moments(body)}))


def _recurring(answer: Response) -> Recurring:
    return answer.read_tagged_as(_read)


def _read(body: Mapping[str, Any]) -> Recurring:
    return read(Recurring, {**body, "next": _moments(body)})


def _moments(answer: Mapping[str, Any]) -> tuple[datetime, ...]:
    return tuple(datetime.fromisoformat(each) for each in answer.get("next") or ())


def _path(recurring_id: str) -> str:
    return "/recurring/" + path_part("recurring_id", recurring_id)


def _new(url: str, options: Mapping[str, Any]) -> bytes:
    given = {
        name: value
        for name, value in options.items()
        if value is not None or name == "callback_url"
    }
    return as_json(_written({"url": url, **given}))


def _written(options: Mapping[str, Any]) -> dict[str, Any]:
    """By the server's names. Raises TypeError for an unknown option."""
    own = _RULE | PAUSES
    request: Any = {name: value for name, value in options.items() if name not in own}
    if unknown := request.keys() - RecurringChangeOptions.__annotations__:
        raise TypeError(f"There is no argument {', '.join(sorted(unknown))}")
    return changes(request) | written({n: v for n, v in options.items() if n in own}, own)
