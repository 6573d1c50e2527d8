"""Lanes, and the account's own settings: each operation once, for both clients."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from functools import partial
from typing import TypedDict, Unpack

from postdate import arguments as kinds
from postdate._schema import CallbackOn
from postdate.arguments import path_part, written
from postdate.calls import Calls, Response, as_json
from postdate.modes import listing, operation
from postdate.results import Account, ClearedLane, Lane, read


class PauseOptions(TypedDict, total=False):
    """Options of a pause: when it ends by itself (None: it has no end), and why it is."""

    paused_until: datetime | str | None
    pause_note: str | None


class AccountOptions(PauseOptions, total=False):
    """Options of `change_account`. Those that are not given stay; None clears one. `callback_url`
    and `callback_on` are for schedules that name no `callback_url`."""

    paused: bool
    callback_url: str | None
    callback_on: CallbackOn | None


class LaneLimits(TypedDict, total=False):
    """Options of `set_lane`: at most `rate` starts `per` ("1s" to "1d", a timedelta or seconds), of
    which `burst` at once, and `parallelism` at a time."""

    rate: int | None
    per: timedelta | float | str | None
    burst: int | None
    parallelism: int | None
    note: str | None


class LaneOptions(LaneLimits, PauseOptions, total=False):
    """Options of `change_lane`. Those that are not given stay; None clears one. `calm_until` takes
    None alone, which ends what a target asked for with Retry-After."""

    paused: bool
    calm_until: None


_PAUSE = {"paused_until": ("pausedUntil", kinds.moment), "pause_note": ("pauseNote", kinds.text)}
PAUSES = {"paused": ("paused", kinds.flag), **_PAUSE}
_LIMITS = {
    "rate": ("rate", kinds.whole),
    "per": ("per", kinds.duration),
    "burst": ("burst", kinds.whole),
    "parallelism": ("parallelism", kinds.whole),
    "note": ("note", kinds.text),
}
_OF_ACCOUNT = {
    **PAUSES,
    "callback_url": ("callbackUrl", kinds.text),
    "callback_on": ("callbackOn", kinds.text),
}
_OF_LANE = {**_LIMITS, **PAUSES, "calm_until": ("calmUntil", kinds.moment)}


class LaneOperations(Calls):
    """`if_match` is the `etag` of an earlier answer: PreconditionFailed is raised, and nothing is
    changed, if it is another by now. All are safe to repeat."""

    @operation
    async def lane(self, lane: str) -> Lane:
        """How a lane stands; without settings of its own, these are None."""
        return _lane(await self._call("GET", _path(lane)))

    @listing
    def lanes(self, *, limit: int | None = None) -> AsyncGenerator[Lane, None]:
        """All that are set, paused, calm or have schedules, by name. At most `limit`."""
        return self._pages("/lanes", {}, "lanes", lambda body: read(Lane, body), limit)

    @operation
    async def set_lane(
        self,
        lane: str,
        *,
        if_match: str | None = None,
        if_none_match: str | None = None,
        **limits: Unpack[LaneLimits],
    ) -> Lane:
        """Sets limits and note, all at once: a limit not given is removed. A pause stays. With
        `if_none_match="*"` it sets only a lane without settings."""
        body = as_json(written(limits, _LIMITS))
        answer = await self._call(
            "PUT", _path(lane), body=body, if_match=if_match, if_none_match=if_none_match
        )
        return _lane(answer)

    @operation
    async def change_lane(
        self, lane: str, *, if_match: str | None = None, **options: Unpack[LaneOptions]
    ) -> Lane:
        """Changes the given settings; with `paused` it pauses the lane or resumes it."""
        body = written(options, _OF_LANE)
        return _lane(await self._call("PATCH", _path(lane), body=as_json(body), if_match=if_match))

    @operation
    async def pause_lane(
        self, lane: str, *, if_match: str | None = None, **pause: Unpack[PauseOptions]
    ) -> Lane:
        """None of its schedules starts until it is resumed, or until the end that is given."""
        path, body = _path(lane) + "/pause", pause_body(pause)
        return _lane(await self._call("POST", path, body=body, if_match=if_match))

    @operation
    async def resume_lane(self, lane: str, *, if_match: str | None = None) -> Lane:
        """Its schedules go out in their order, at the lane's rate."""
        return _lane(await self._call("POST", _path(lane) + "/resume", if_match=if_match))

    @operation
    async def clear_lane(self, lane: str, *, if_match: str | None = None) -> ClearedLane:
        """Removes limits, pause and calm. Waiting schedules go on without limits."""
        answer = await self._call("DELETE", _path(lane), if_match=if_match)
        return answer.read_as(lambda body: read(ClearedLane, body))

    @operation
    async def account(self) -> Account:
        """Whether the account is paused, its default callback, its plan and what it has."""
        return _account(await self._call("GET", "/account"))

    @operation
    async def change_account(
        self, *, if_match: str | None = None, **options: Unpack[AccountOptions]
    ) -> Account:
        """Pauses all schedules of the account, or resumes them; or says where the ends of schedules
        are reported."""
        body = as_json(written(options, _OF_ACCOUNT))
        return _account(await self._call("PATCH", "/account", body=body, if_match=if_match))

    @operation
    async def pause_account(
        self, *, if_match: str | None = None, **pause: Unpack[PauseOptions]
    ) -> Account:
        """Nothing of the account starts until it is resumed, or until the end that is given; and
        nothing is lost meanwhile."""
        body = pause_body(pause)
        return _account(await self._call("POST", "/account/pause", body=body, if_match=if_match))

    @operation
    async def resume_account(self, *, if_match: str | None = None) -> Account:
        """Lanes that are paused stay so."""
        return _account(await self._call("POST", "/account/resume", if_match=if_match))


def pause_body(pause: PauseOptions) -> bytes:
    return as_json(written(pause, _PAUSE))


def _lane(answer: Response) -> Lane:
    return answer.read_tagged_as(partial(read, Lane))


def _account(answer: Response) -> Account:
    return answer.read_tagged_as(partial(read, Account))


def _path(lane: str) -> str:
    return "/lanes/" + path_part("lane", lane)
