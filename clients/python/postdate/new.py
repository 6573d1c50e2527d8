"""A schedule that does not exist yet."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final

from postdate.moments import durations, moment_text, when
from postdate.results import Delivery


class Keep(Enum):
    """The default of every argument of `change`: what is not given stays as it is."""

    KEEP = "keep"


KEEP: Final = Keep.KEEP


@dataclass(frozen=True, slots=True)
class NewSchedule:
    """One of a batch: the arguments of `schedule`, by the same names."""

    url: str
    _: KW_ONLY
    at: datetime | str | None = None
    in_: timedelta | float | None = None
    delay: timedelta | float | str | None = None
    json: Mapping[str, Any] | None = None
    text: str | None = None
    data: bytes | None = None
    method: str | None = None
    headers: Mapping[str, str] | None = None
    delivery: Delivery | None = None
    expires_at: datetime | str | None = None
    retries: int | None = None
    retry_delays: Sequence[timedelta | float | str] | None = None

    def payload(self) -> dict[str, Any]:
        """As the server wants it. Raises ValueError if it does not say when."""
        fields = {
            "targetUrl": self.url,
            **when(self.at, self.in_, self.delay),
            **changes(
                json=self.json,
                text=self.text,
                data=self.data,
                method=self.method,
                headers=self.headers,
                delivery=self.delivery,
                expires_at=self.expires_at,
                retries=self.retries,
                retry_delays=self.retry_delays,
            ),
        }
        return {name: value for name, value in fields.items() if value is not None}


def changes(
    *,
    url: str | Keep = KEEP,
    at: datetime | str | None = None,
    in_: timedelta | float | None = None,
    delay: timedelta | float | str | None = None,
    json: Mapping[str, Any] | Keep | None,
    text: str | Keep | None,
    data: bytes | Keep | None,
    method: str | Keep | None,
    headers: Mapping[str, str] | Keep | None,
    delivery: Delivery | Keep | None,
    expires_at: datetime | str | Keep | None,
    retries: int | Keep | None,
    retry_delays: Sequence[timedelta | float | str] | Keep | None,
) -> dict[str, Any]:
    """What is given, by the server's names; the rest is to stay."""
    fields = {
        "targetUrl": url,
        "targetMethod": method,
        "targetHeaders": dict(headers) if isinstance(headers, Mapping) else headers,
        "targetBody": json,
        "targetBodyText": text,
        "targetBodyBase64": b64encode(data).decode() if isinstance(data, bytes) else data,
        "delivery": delivery,
        "expiresAt": moment_text("expires_at", expires_at)
        if isinstance(expires_at, datetime)
        else expires_at,
        "retries": retries,
        "retryDelays": KEEP if retry_delays is KEEP else durations(retry_delays),
    }
    given = {name: value for name, value in fields.items() if value is not KEEP}
    return given if (at, in_, delay) == (None, None, None) else given | when(at, in_, delay)
