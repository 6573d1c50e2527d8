"""`targetBodyText` and `targetBodyBase64`: bodies that are no JSON object."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from api.schema.payload import parse_request
from api.schema.rules import Rules
from scheduler.errors import InvalidRequest
from scheduler.models import BodyKind
from scheduler.schema import MOST_RAW_BODY_BYTES
from scheduler.target.destinations import Destinations
from tests.api.conftest import CREDITS, Api

NAMES = ("targetBody", "targetBodyText", "targetBodyBase64")
NO_BASE64 = "It must be base64 (RFC 4648) with padding, and without line breaks."
TOO_LARGE = "It may have at most 196,608 bytes."


async def shown(api: Api, schedule_id: str) -> dict[str, Any]:
    """The body fields that are not null."""
    found = await api.read(schedule_id)
    return {name: found[name] for name in NAMES if found[name] is not None}


def parsed(base64: str) -> bytes | None:
    text = f'{{"targetUrl":"http://a.example","delay":"1s","targetBodyBase64":"{base64}"}}'
    return parse_request(text.encode(), Rules(Destinations(), 1830), 0).body


@pytest.mark.parametrize(
    ("field", "value", "body", "kind"),
    [
        ("targetBodyText", "für später\n", "für später\n".encode(), BodyKind.TEXT),
        ("targetBodyText", "", b"", BodyKind.TEXT),
        ("targetBodyBase64", "AAEC/w==", b"\x00\x01\x02\xff", BodyKind.BINARY),
        ("targetBody", {"a": 1}, b'{"a":1}', BodyKind.JSON),
    ],
)
async def test_the_field_that_was_given_is_shown_again(
    api: Api, field: str, value: Any, body: bytes, kind: BodyKind
) -> None:
    others = {name: None for name in NAMES if name != field}
    schedule_id = await api.create_id(**{field: value}, **others)
    request = await api.stored(schedule_id)
    assert (request.body, request.body_kind, request.method) == (body, kind, "POST")
    assert await shown(api, schedule_id) == {field: value}
    assert [each[field] for each in await api.listed()] == [value]


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("targetBodyText", 5, "It must be a string."),
        ("targetBodyText", "ü" * (MOST_RAW_BODY_BYTES // 2 + 1), TOO_LARGE),
        ("targetBodyBase64", "AAA", NO_BASE64),
        ("targetBodyBase64", "AAE=\n", NO_BASE64),
        ("targetBodyBase64", "AAF=", NO_BASE64),  # bits left over that are not zero
        ("targetBodyBase64", "__8=", NO_BASE64),
    ],
)
async def test_no_such_body_is_a_400(api: Api, field: str, value: Any, says: str) -> None:
    answer = await api.create(**{field: value})
    assert answer.status_code == 400
    assert answer.json()["details"] == [{"field": field, "message": says}]
    await api.holds(credits=CREDITS, waiting=set())


async def test_the_largest_bodies_are_taken(api: Api) -> None:
    text = "x" * MOST_RAW_BODY_BYTES
    schedule_id = await api.create_id(targetBodyText=text)
    assert (await api.stored(schedule_id)).body == text.encode()
    body = b"\xff" * MOST_RAW_BODY_BYTES
    data = b64encode(body).decode()
    assert parsed(data) == body
    with pytest.raises(InvalidRequest, match=TOO_LARGE):
        parsed("AAAA" + data)


async def test_more_than_one_body_is_a_400_that_names_them(api: Api) -> None:
    answer = await api.create(targetBody={}, targetBodyText="a", targetBodyBase64="AA==")
    says = "Only one of targetBody and targetBodyText and targetBodyBase64 may be given."
    assert answer.json()["details"] == [{"field": name, "message": says} for name in NAMES]


@pytest.mark.parametrize("before", [{"targetBody": {"a": 1}}, {}])
@pytest.mark.parametrize(
    ("fields", "after"),
    [
        ({"targetBodyText": "b"}, {"targetBodyText": "b"}),
        ({"targetBodyBase64": "AA=="}, {"targetBodyBase64": "AA=="}),
        ({"targetBody": None, "targetBodyText": "b"}, {"targetBodyText": "b"}),
        ({"targetBodyText": None}, {}),
        ({"targetBody": None}, {}),
    ],
)
async def test_a_change_puts_one_in_the_place_of_another(
    api: Api, before: dict[str, Any], fields: dict[str, Any], after: dict[str, Any]
) -> None:
    schedule_id = await api.create_id(**before)
    answer = await api.client.patch(f"/schedule/{schedule_id}", json=fields)
    assert answer.status_code == 200
    assert await shown(api, schedule_id) == after
    request = await api.stored(schedule_id)
    assert request.method == ("POST" if after else "GET")
    # Without a body there is no kind of it to be kept.
    assert request.body_kind is BodyKind.JSON or request.body is not None
