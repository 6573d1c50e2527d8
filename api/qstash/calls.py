"""What the files of the door share: a call as their handlers get it, and its routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple
from urllib.parse import parse_qs

from litestar.types import Scope

from api.answer import JsonResponse
from api.auth import Call
from api.service import Service
from scheduler.store import Store


class QStashCall(NamedTuple):
    """A request to the door whose caller is known. `parts` are what stands in the place of each
    `{name}` of its route, percent-decoded but for a `{url}`, which is the rest of the path as it
    was sent. `body` was read within the limit."""

    service: Service
    store: Store
    account_id: str
    key_id: str
    scope: Scope
    parts: tuple[str, ...]
    body: bytes

    @property
    def query(self) -> dict[str, list[str]]:
        """Every value of a parameter, in order."""
        return parse_qs(self.scope["query_string"].decode("latin-1"), keep_blank_values=True)

    @property
    def headers(self) -> list[tuple[str, str]]:
        """All of them, their names in small letters."""
        each = self.scope["headers"]
        return [(name.decode("latin-1"), text.decode("latin-1")) for name, text in each]

    @property
    def native(self) -> Call:
        """The same caller, as native calls have it."""
        return Call(self.service, self.store, self.account_id, {}, self.key_id)


class Refused(Exception):
    """What the door answers with this status and `{"error": sentence}`, beside errors of Postdate,
    which have the status that native calls have."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def not_offered(what: str) -> Refused:
    return Refused(501, f"{what} are not offered; see docs/come-over/qstash")


class Route(NamedTuple):
    """`path` is below `/qstash`, such as `/v2/messages/{messageId}`; `{url}` at its end takes the
    rest. Each file of the door has its `ROUTES`."""

    method: str
    path: str
    handler: Callable[[QStashCall], Awaitable[JsonResponse]]
