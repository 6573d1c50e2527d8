"""Every way to refuse a request: one reason each, which the documents have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api.app import create_app
from api.door import refusals as rejections
from api.door.refusals import Rejection
from api.errors import _KINDS
from api.openapi.refusals import REASONS
from api.request_ids import PATTERN, new_request_id
from ops.docs.reference import Reference
from scheduler import errors
from scheduler.errors import PostdateError, Reason
from scheduler.runtime.settings import Settings
from scheduler.store.verdict import Verdict, refusal
from tests.api.conftest import Api, payload
from tests.api.errors import error_of
from tests.api.letters import UNKNOWN
from tests.api.process import serving
from tests.api.refusals import SETTINGS, pages, refusals, scene
from tests.support.servers import ValkeyProcess

DOC = Path(__file__).parents[2] / "docs/reference/errors.md"
REJECTIONS = [each for each in vars(rejections).values() if isinstance(each, Rejection)]
REFERENCE = Reference({})
# What docs/reference/errors.md says of every call, and not each call's own table.
OF_EVERY_CALL = {
    *(Reason.DAMAGED, Reason.MALFORMED_REQUEST, Reason.MISDIRECTED, Reason.OVERLOADED),
    *(Reason.RATE_LIMITED, Reason.SUSPENDED, Reason.TIMEOUT, Reason.TOO_LARGE),
    *(Reason.UNAUTHORIZED, Reason.UNSUPPORTED_ENCODING),
}
# Where the reason does not come with a kind of error, a verdict or a rejection.
ELSEWHERE = """destination_not_allowed draining invalid_field method_not_allowed misdirected
several_waiting unsupported_method"""
# A fault, a moment, or a call before; the tests of each have them.
NEED_MORE_THAN_A_REQUEST = """already_replayed already_started body_not_kept callback_pending
draining internal_error keeps_changing key_reused outcome_unknown overloaded recurring_name_taken
store_unavailable timeout too_many_lanes too_many_recurring too_many_secrets unknown_account"""
NO_REFUSAL = "DONE AGAIN REPEATED KEY_REUSED EXISTING EACH SEVERAL NAME_TAKEN TOO_MANY LATER"
OF_A_KEY = {Verdict.SUSPENDED, Verdict.LIMITED}


def kinds(base: type[PostdateError] = PostdateError) -> Iterator[type[PostdateError]]:
    yield base
    for each in base.__subclasses__():
        yield from kinds(each)


def test_each_error_has_a_reason_and_each_reason_an_error() -> None:
    no_refusal = {Verdict[each] for each in NO_REFUSAL.split()}
    given = {each.reason for each in REJECTIONS}
    given |= {each.reason for each in kinds()}
    given |= {refusal("", each).reason for each in set(Verdict) - no_refusal - OF_A_KEY}
    assert given | set(map(Reason, ELSEWHERE.split())) == set(Reason)


def test_only_our_own_faults_and_what_no_client_meets_have_no_reason_of_their_own() -> None:
    answered = [kind for kind, _, _ in _KINDS]
    for kind in kinds():
        if kind.reason is Reason.INTERNAL_ERROR:
            nobody = not any(issubclass(kind, each) for each in answered)
            assert nobody or kind in (errors.InvalidRequest, errors.Conflict), kind


def test_the_documents_have_every_reason() -> None:
    described = set(re.findall(r"^\| `(\w+)` \|", DOC.read_text(), re.MULTILINE))
    assert set(Reason) <= described
    schemas = create_app(Settings()).state.document["components"]["schemas"]
    assert schemas["Reason"]["enum"] == sorted(Reason)
    for body in ("ErrorBody", "RefusedBody", "UncancelledBody", "UnreplayedBody"):
        assert schemas[body]["properties"]["reason"]["$ref"] == "#/components/schemas/Reason"
        assert "reason" in schemas[body]["required"]


def test_the_reference_tells_the_statuses_that_errors_have() -> None:
    for kind in kinds():
        if kind.reason is not Reason.INTERNAL_ERROR and (status := status_of_kind(kind)):
            assert status in REASONS[kind.reason].statuses, kind
    for rejection in REJECTIONS:
        assert rejection.status in REASONS[rejection.reason].statuses, rejection
    assert REASONS.keys() == set(Reason)


def status_of_kind(kind: type[PostdateError]) -> int | None:
    return next((status for base, status, _ in _KINDS if issubclass(kind, base)), None)


async def test_refusals_have_a_reason_and_answers_a_request_id(own_valkey: ValkeyProcess) -> None:
    made = await scene(own_valkey.url)
    request_ids, reasons = set(), set()
    with serving(own_valkey.url, **SETTINGS) as server:
        for name, (data, status) in refusals(made).items():
            asked = (server.ask(data) for _ in range(12))  # a rate has to be used up
            reply = next((each for each in asked if each.status == status), None)
            assert reply is not None, name
            items = reply.json["schedules"] if status == 200 else [error_of(reply)]
            found = {Reason(item["reason"]) for item in items}
            reasons |= found
            if (call := call_of(data)) and status != 200:
                told = REFERENCE.reasons_of(REFERENCE.calls[call]).keys()
                assert found <= told | OF_EVERY_CALL, f"{name}: {call}"
            request_ids.add(reply.headers["postdate-request-id"])
        for data, _ in pages(made).values():
            request_ids.add(server.ask(data).headers["postdate-request-id"])
    assert len(request_ids) == len(refusals(made)) + len(pages(made))
    assert all(re.match(PATTERN, each) for each in request_ids)
    assert set(Reason) - reasons == set(map(Reason, NEED_MORE_THAN_A_REQUEST.split()))


def call_of(data: bytes) -> str | None:
    """The call of the document that these bytes of a request make."""
    method, _, target = data.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    path = target.partition(" ")[0].partition("?")[0]
    for call in REFERENCE.calls:
        if re.fullmatch(
            re.sub(r"\{\w+\}", "(?!batch|cancel|replay|callback)[^/]+", call), f"{method} {path}"
        ):
            return call
    return None


def test_request_ids_do_not_repeat() -> None:
    assert len({new_request_id() for _ in range(10_000)}) == 10_000


def many(count: int = 30) -> dict[str, int]:
    """Names that do not exist."""
    return {f"f{n}": n for n in range(count)}


@pytest.mark.parametrize(
    ("method", "path", "asked", "listed", "rest"),
    [
        ("POST", "/schedule", payload() | many(), 5, 25),
        ("PATCH", f"/schedule/{UNKNOWN}", many(), 5, 25),
        ("POST", f"/schedule/{UNKNOWN}/replay", many(), 5, 25),
        ("POST", "/schedule/batch", {"schedules": [payload()]} | many(), 5, 25),
        ("POST", "/schedule/cancel", {"ids": [0] * 1000}, 20, 980),
        ("POST", "/schedule/cancel", {"status": "scheduled"} | many(), 5, 25),
        ("POST", "/schedule/replay", {"ids": [None] * 30}, 20, 10),
        ("POST", "/schedule/replay", {"status": "failed"} | many(5000), 5, 4995),
        ("POST", "/signing/rotate", many(), 5, 25),
        ("GET", "/schedule", many(), 5, 25),
        ("GET", "/stats/logs", many(), 5, 25),
        ("DELETE", f"/schedule/{UNKNOWN}", many(), 5, 25),
    ],
)
async def test_the_list_of_faults_ends(
    api: Api, method: str, path: str, asked: dict[str, Any], listed: int, rest: int
) -> None:
    sent = {"json" if method in ("POST", "PATCH") else "params": asked}
    answer = await api.client.request(method, path, **sent)
    details = answer.json()["details"]
    assert (answer.status_code, answer.json()["reason"]) == (400, "invalid_field")
    assert len(details) == listed + 1
    assert details[-1] == {"field": "…", "message": f"and {rest:,} more"}
