"""What a PATCH changes: each given field judged by the rules of a new schedule. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from api import fields
from api.errors import invalid
from api.fields import Findings, Rules
from api.headers import check_headers
from api.schemas import ChangePayload
from scheduler.errors import FieldError
from scheduler.models import Request


class Change(msgspec.Struct, frozen=True):
    """New values for fields of a `Request`, by their names there.

    A method that was cleared is not among them: it depends on the body, `clears_method` says so.
    """

    values: dict[str, Any]
    clears_method: bool = False

    def of(self, before: Request) -> Request:
        """The whole request as it then is. Raises InvalidRequest if its fields do not go together.

        Only what is changed is judged, and what it has to go with: a triggerAt that has passed
        since, because the schedule still waits for a worker, is in nobody's way.
        """
        after = msgspec.structs.replace(before, **self.values)
        if self.clears_method:
            method = fields.target_method(None, after.body is not None)
            after = msgspec.structs.replace(after, method=method)
        self._refuse_to_expire_before_it_is_due(after)
        return after

    def _refuse_to_expire_before_it_is_due(self, after: Request) -> None:
        if after.expires_at_ms is None or after.expires_at_ms > after.trigger_at_ms:
            return
        if "expires_at_ms" in self.values:
            raise invalid([FieldError("expiresAt", "It must be after triggerAt.")])
        if "trigger_at_ms" in self.values:
            raise invalid([FieldError("triggerAt", "It must be before expiresAt.")])


class _Field(NamedTuple):
    """One field of the payload: its names outside, in the payload and in a `Request`, its rule."""

    name: str
    attribute: str
    of_request: str
    rule: Callable[[Any, Rules, int], Any]


_FIELDS = (
    _Field(
        "targetUrl", "target_url", "url", lambda v, rules, _: fields.target_url(v, rules.policy)
    ),
    _Field("triggerAt", "trigger_at", "trigger_at_ms", fields.trigger_at),
    _Field("targetMethod", "target_method", "method", lambda v, *_: fields.target_method(v, True)),
    _Field("targetBody", "target_body", "body", lambda v, *_: fields.target_body(v)),
    _Field("delivery", "delivery", "delivery", lambda v, *_: fields.delivery(v)),
    # That it comes after triggerAt is judged with the whole.
    _Field("expiresAt", "expires_at", "expires_at_ms", lambda v, *_: fields.expires_at(v, None)),
)


def judge_change(
    payload: ChangePayload, rules: Rules, now_ms: int, found: list[FieldError]
) -> Change:
    """The change that a payload describes; `found` as for `judge`.

    Raises InvalidRequest with every bad field, or if nothing is given at all.
    """
    findings = Findings(found)
    values: dict[str, Any] = {}
    for name, attribute, of_request, rule in _FIELDS:
        value = getattr(payload, attribute)
        if value is not msgspec.UNSET:
            values[of_request] = findings.check(name, rule, value, rules, now_ms)
    if payload.target_headers is not msgspec.UNSET:
        values["headers"] = payload.target_headers or {}
        check_headers(values["headers"], found)
    if not values and not found:
        found.append(FieldError("body", "It must give at least one field to change."))
    if found:
        raise invalid(found)
    clears_method = payload.target_method is None
    if clears_method:
        del values["method"]
    return Change(values, clears_method)
