"""Conditional requests: If-Match, If-None-Match, ETag."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from api.preconditions import wanted_of
from scheduler.errors import InvalidRequest
from tests.api.conftest import NEW_YEAR, URL, Api, bad_fields
from tests.api.errors import error_of

RULE = {"targetUrl": URL, "every": "1d", "startsAt": NEW_YEAR}
OTHER = {"retries": 7}


@pytest.mark.parametrize(
    ("lines", "tags"),
    [
        ([], None),
        (['"a"'], {'"a"'}),
        (["*"], {"*"}),
        ([" * "], {"*"}),
        (['"*"'], {'"*"'}),
        (['"a", "b"'], {'"a"', '"b"'}),
        (['"a"', ' W/"b"\t,', '"c"'], {'"a"', 'W/"b"', '"c"'}),
        ([', "a" ,,\t"b",'], {'"a"', '"b"'}),
        (['"a,b"'], {'"a,b"'}),
        (['""'], {'""'}),
        (['"!#[]~é"'], {'"!#[]~é"'}),
        (['"W/"'], {'"W/"'}),
    ],
)
def test_tags_are_read(lines: list[str], tags: set[str] | None) -> None:
    found = wanted_of(scope(b"if-match", *lines)).match
    assert found == tags
    weak = tags and {each.removeprefix("W/") for each in tags}
    assert wanted_of(scope(b"if-none-match", *lines)).none_match == weak


@pytest.mark.parametrize(
    "lines",
    [
        [""],
        [" , "],
        ["a"],
        ['"'],
        ['"a'],
        ['"a" "b"'],
        ['"a""b"'],
        ['"a b"'],
        ['"a\x7f"'],
        ['w/"a"'],
        ['W/ "a"'],
        ["W/*"],
        ["*,*"],
        ["*,"],
        ['*, "a"'],
        ['"a"', "*"],
        ["," * 10_000 + "x"],
        ['"a",' * 4000 + "x"],
    ],
    ids=range(18),
)
@pytest.mark.parametrize("name", ["If-Match", "If-None-Match"])
def test_a_malformed_header_is_named(lines: list[str], name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        wanted_of(scope(name.lower().encode(), *lines))
    assert [each.field for each in caught.value.details] == [name]


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, error_of(answer)["reason"]


def scope(name: bytes, *lines: str) -> Any:
    return {"headers": [(name, line.encode("latin-1")) for line in lines]}


async def a_schedule(api: Api) -> str:
    return "/schedule/" + await api.create_id(triggerAt=NEW_YEAR)


async def a_rule(api: Api) -> str:
    made = await api.client.post("/recurring", json=RULE | {"name": "report"})
    return "/recurring/" + str(made.json()["recurringId"])


async def paused(api: Api, path: str) -> str:
    assert (await api.client.post(f"{path}/pause")).status_code == 200
    return path


async def a_paused_rule(api: Api) -> str:
    return await paused(api, await a_rule(api))


async def a_lane(api: Api) -> str:
    assert (await api.client.put("/lanes/a", json={"note": "x"})).status_code == 200
    return "/lanes/a"


async def a_paused_lane(api: Api) -> str:
    return await paused(api, await a_lane(api))


async def the_account(api: Api) -> str:
    return "/account"


async def the_paused_account(api: Api) -> str:
    return await paused(api, "/account")


Noun = Callable[[Api], Awaitable[str]]
NOUNS = (a_schedule, a_rule, a_lane, the_account)
# The call, its path ("": that of what it is about), its body.
WRITES: list[tuple[Noun, str, str, dict[str, Any] | None]] = [
    (a_schedule, "PATCH", "", OTHER),
    (a_schedule, "DELETE", "", None),
    (a_rule, "PATCH", "", OTHER),
    (a_rule, "PUT", "/recurring/by-name/report", RULE | OTHER),
    (a_rule, "POST", "/pause", None),
    (a_paused_rule, "POST", "/resume", None),
    (a_rule, "POST", "/trigger", None),
    (a_rule, "DELETE", "", None),
    (a_lane, "PUT", "", {"note": "other"}),
    (a_lane, "PATCH", "", {"note": "other"}),
    (a_lane, "POST", "/pause", None),
    (a_paused_lane, "POST", "/resume", None),
    (a_lane, "DELETE", "", None),
    (the_account, "PATCH", "", {"paused": True, "pauseNote": "other"}),
    (the_account, "POST", "/pause", None),
    (the_paused_account, "POST", "/resume", None),
]


@pytest.mark.parametrize("noun", NOUNS)
async def test_a_read_is_answered_by_what_the_client_has(api: Api, noun: Noun) -> None:
    path, client = await noun(api), api.client
    seen = await client.get(path)
    etag = seen.headers["etag"]
    assert (etag[0], etag[-1]) == ('"', '"')
    for has in (etag, f"W/{etag}", f'"x", {etag}', "*"):
        for method in ("GET", "HEAD"):
            answer = await client.request(method, path, headers={"if-none-match": has})
            assert (answer.status_code, answer.content) == (304, b"")
            assert answer.headers["etag"] == etag
            assert answer.headers["cache-control"] == "no-store"
            assert not {"content-type", "content-length"} & set(answer.headers)
    for headers in ({"if-none-match": '"x"'}, {"if-match": etag}, {"if-match": "*"}):
        answer = await client.get(path, headers=headers)
        assert (answer.status_code, answer.json()) == (200, seen.json())
    for other in ('"x"', f"W/{etag}"):
        answer = await client.get(path, headers={"if-match": other, "if-none-match": etag})
        assert refusal(answer) == (412, "precondition_failed")
    for name in ("If-Match", "If-None-Match"):
        assert bad_fields(await client.get(path, headers={name: etag[1:-1]})) == [name]


@pytest.mark.parametrize(
    ("noun", "method", "where", "body"),
    WRITES,
    ids=[f"{noun.__name__} {method} {where}" for noun, method, where, _ in WRITES],
)
async def test_a_write_is_bound_to_what_was_seen(
    api: Api, noun: Noun, method: str, where: str, body: dict[str, Any] | None
) -> None:
    there = await noun(api)
    path = where if where.startswith("/recurring") else there + where
    before = await api.client.get(there)
    etag = before.headers["etag"]

    async def write(**headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await api.client.request(method, path, json=body, headers=named)

    for refused in (
        {"if_match": '"x"'},
        {"if_match": f'W/{etag}, "x"'},
        {"if_none_match": "*"},
        {"if_none_match": etag, "if_match": etag},
    ):
        answer = await write(**refused)
        assert refusal(answer) == (412, "precondition_failed")
        assert (await api.client.get(there)).headers["etag"] == etag
    for name in ("If-Match", "If-None-Match"):
        assert bad_fields(await write(**{name: "x"})) == [name]
    credits = await api.credits()
    done = await write(if_match=f'"x", {etag}', if_none_match='"x"')
    assert done.is_success, done.text
    if "etag" in done.headers:
        assert done.headers["etag"] == (await api.client.get(there)).headers["etag"] != etag
    # A client whose answer was lost asks again. A trigger has an Idempotency-Key for that.
    if where != "/trigger":
        credits = await api.credits()
        unchanged = {"unchanged": True} if method == "PUT" and path != there else {}
        assert (await write(if_match=etag)).json() == done.json() | unchanged
    assert await api.credits() == credits - (where == "/trigger")


@pytest.mark.parametrize(
    ("path", "body"), [("/lanes/a", {"note": "x"}), ("/recurring/by-name/report", RULE)]
)
async def test_a_put_may_only_create_or_only_replace(
    api: Api, path: str, body: dict[str, Any]
) -> None:
    async def put(more: dict[str, Any], **headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return (await api.client.put(path, json=body | more, headers=named)).status_code

    assert await put({}, if_match="*") == 412
    assert await put({}, if_match='"x"') == 412
    assert await put({}, if_none_match="*") == (200 if path == "/lanes/a" else 201)
    assert await put({}, if_none_match="*") == 412
    more = {"note": "y"} if path == "/lanes/a" else OTHER
    assert await put(more, if_none_match="*") == 412
    assert await put(more, if_match="*") == 200


async def test_what_would_be_refused_anyway_is_refused_as_without_a_tag(api: Api) -> None:
    path, gone = await a_schedule(api), "/schedule/sch_01m81hkezper8s5tq5rw0znapx"
    headers = {"if-match": "*", "if-none-match": "*"}
    for method in ("GET", "PATCH", "DELETE"):
        body = OTHER if method == "PATCH" else None
        answer = await api.client.request(method, gone, json=body, headers=headers)
        assert refusal(answer) == (404, "unknown_schedule")
    assert (await api.client.delete(path)).status_code == 200
    answer = await api.client.patch(path, json=OTHER, headers={"if-match": '"x"'})
    assert refusal(answer) == (409, "already_ended")


async def test_a_call_that_makes_something_of_its_own_knows_no_tags(api: Api) -> None:
    path, headers = await a_schedule(api), {"if-match": "x", "if-none-match": "*"}
    made = await api.client.post(
        "/schedule", json={"targetUrl": URL, "triggerAt": NEW_YEAR}, headers=headers
    )
    listed = await api.client.get("/schedule", headers=headers)
    many = {"ids": [path.removeprefix("/schedule/")]}
    cancelled = await api.client.post("/schedule/cancel", json=many, headers=headers)
    assert [each.status_code for each in (made, listed, cancelled)] == [201, 200, 200]
    assert not {"etag"} & {*made.headers, *listed.headers, *cancelled.headers}


def test_the_document_says_which_calls_may_be_bound(api: Api) -> None:
    paths = {
        a_schedule: "/schedule/{scheduleId}",
        a_rule: "/recurring/{recurringId}",
        a_paused_rule: "/recurring/{recurringId}",
        a_lane: "/lanes/{lane}",
        a_paused_lane: "/lanes/{lane}",
        the_account: "/account",
        the_paused_account: "/account",
    }
    expected = {
        (method, "/recurring/by-name/{name}" if method == "PUT" and where else paths[noun] + where)
        for noun, method, where, _ in WRITES
    }
    reads = {("GET", paths[noun]) for noun in NOUNS}
    bound, told = dict[tuple[str, str], set[str]](), set[tuple[str, str]]()
    for path, methods in api.app.state.document["paths"].items():
        for name, call in methods.items():
            headers = {each["name"] for each in call["parameters"] if each["in"] == "header"}
            call_name = name.upper(), path
            if tags := headers & {"If-Match", "If-None-Match"}:
                bound[call_name] = tags
            assert ("If-Match" in headers) == ("412" in call["responses"])
            if "304" in call["responses"]:
                told.add(call_name)
    assert (set(bound), told) == (expected | reads, reads)
    both = {call for call, tags in bound.items() if "If-None-Match" in tags}
    assert both == reads | {call for call in expected if call[0] == "PUT"}
