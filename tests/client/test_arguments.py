"""Arguments that mean nothing are refused by name, before anything is sent."""

from __future__ import annotations

import inspect
import mmap
import re
from array import array
from base64 import b64decode
from itertools import product
from typing import Any

import httpx
import pytest

from postdate import AsyncPostdate, Buffer, NewSchedule, Postdate, lanes, new, operations, recurring
from postdate.operations import Operations
from tests.client.both import BASE_URL, CREATED, KEY, URL, Client, Server, answer
from tests.client.test_operations import SCHEDULE

# A value of each parameter that some call needs.
NEEDED: dict[str, Any] = {
    "schedule_id": "sch_1",
    "lane": "a",
    "name": "a",
    "recurring_id": "rec_1",
    "url": URL,
    "new": [NewSchedule(URL, delay=1)],
}
_NEED_A_TIME = ("schedule", "create_recurring")
_IN_A_PATH = ("schedule_id", "lane", "name", "recurring_id")
ODD = ["", ".", "..", "/", "a/b", "../account", "a?b", "a#b", "a%2Fb", "a b", "a\n", "ü", "\ud800"]
ODD += ["a" * 201]


def signature(name: str) -> list[inspect.Parameter]:
    return [*inspect.signature(getattr(Operations, name).__wrapped__).parameters.values()]


def parameters(name: str) -> list[str]:
    """Those of a call, with its options."""
    found = []
    for each in signature(name):
        if each.kind is each.VAR_KEYWORD:
            options = re.fullmatch(r"Unpack\[(\w+)\]", str(each.annotation))
            assert options
            [kind] = {
                vars(module)[options[1]]
                for module in (new, lanes, recurring, operations)
                if options[1] in vars(module)
            }
            found += kind.__annotations__
        elif each.name != "self":
            found.append(each.name)
    return found


# Of each call, what it needs.
CALLS = {
    name: {
        each.name: NEEDED[each.name]
        for each in signature(name)
        if each.name in NEEDED and each.default is each.empty
    }
    for name in dir(Operations)
    if not name.startswith("_") and name != "with_options"
}
EVERY = [(name, each) for name in CALLS for each in parameters(name)]


@pytest.mark.parametrize(("name", "parameter"), [each for each in EVERY if each[1] != "data"])
def test_bytes_are_no_text(client: Client, server: Server, name: str, parameter: str) -> None:
    given = CALLS[name] | {parameter: b"abc"}
    if name in _NEED_A_TIME and parameter not in ("at", "in_", "delay"):
        given = {"delay" if name == "schedule" else "every": 5} | given
    with pytest.raises(TypeError, match=rf"^{parameter}(\[0\])? must be .*, not (bytes|int)$"):
        getattr(client, name)(**given)
    assert server.requests == []


@pytest.mark.parametrize(
    ("name", "parameter"),
    [each for each in EVERY if each[1] in _IN_A_PATH and each[1] in CALLS[each[0]]]
    + [("list", "lane"), ("logs", "schedule_id"), ("cancel_many", "recurring_id")]
    + [("recurring_all", "name")],
)
def test_what_is_no_id_is_sent_nowhere(
    client: Client, server: Server, name: str, parameter: str
) -> None:
    for odd in ODD:
        with pytest.raises(ValueError, match=f"^{parameter} (must have|has half)"):
            getattr(client, name)(**CALLS[name] | {parameter: odd})
    wrong: list[object] = [1, b"sch_1"] + [None] * (parameter in CALLS[name])
    for each in wrong:
        with pytest.raises(TypeError, match=f"^{parameter} must be a str, not"):
            getattr(client, name)(**CALLS[name] | {parameter: each})
    assert server.requests == []


@pytest.mark.parametrize(
    ("names", "wrong"),
    [
        ("list cancel_many replay_many resend_callbacks logs", "urls statuses scheduleId if_match"),
        ("cancel_many replay_many resend_callbacks", "status order schedule_id"),
        ("set_lane change_lane", "rates"),
        ("create_recurring", "at delay expires_at crons"),
    ],
)
def test_an_argument_that_there_is_not_is_refused(
    client: Client, server: Server, names: str, wrong: str
) -> None:
    """Without a filter all would be meant."""
    for name, each in product(names.split(), wrong.split()):
        with pytest.raises(TypeError, match=f"^There is no argument {each}"):
            getattr(client, name)(**CALLS[name] | {each: "x"})
    assert server.requests == []


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (b"\0\xff", b"\0\xff"),
        (b"", b""),
        (bytearray(b"abc"), b"abc"),
        (memoryview(b"abc"), b"abc"),
        (memoryview(b"a-b-c")[::2], b"abc"),
        (memoryview(b"abc")[::-1], b"cba"),
        (memoryview(b"abcd").cast("B", (2, 2)), b"abcd"),
        (array("H", [1, 2]), array("H", [1, 2]).tobytes()),
        (mmap.mmap(-1, 4), b"\0\0\0\0"),
    ],
)
def test_data_is_whatever_has_bytes(mode: str, value: Any, content: bytes) -> None:
    server = Server()
    server.plays(answer(201, CREATED), answer(200, SCHEDULE))
    with Client(mode, BASE_URL, KEY, handler=server.handle) as client:
        client.schedule(URL, delay=1, data=value)
        client.change("sch_1", data=value)
        body = recurring._new(URL, {"every": 5, "data": value})
        sent = [each["targetBodyBase64"] for each in server.bodies]
    assert [b64decode(each) for each in sent] == [content] * 2
    assert f'"targetBodyBase64": "{sent[0]}"'.encode() in body


@pytest.mark.parametrize("value", ["abc", 3, [1, 2]])
def test_text_is_no_data(client: Client, server: Server, value: Any) -> None:
    server.plays(answer(201, CREATED))
    with pytest.raises(TypeError, match=r"^data must be bytes-like, not"):
        client.schedule(URL, delay=1, data=value)
    client.schedule(URL, delay=1, data=None)
    assert server.bodies == [{"targetUrl": URL, "delay": "1000ms"}]


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("json", [1], "json must be a mapping, not list"),
        ("json", '{"a": 1}', "json must be a mapping, not str"),
        ("json", {"a": b"x"}, "json cannot be sent: .*bytes"),
        ("headers", {"X-A": b"x"}, r"headers\['X-A'\] must be a str, not bytes"),
        ("headers", {b"X-A": "x"}, "A name in headers must be a str, not bytes"),
        ("headers", [("X-A", "x")], "headers must be a mapping, not list"),
        ("retry_delays", [1, b"1s"], r"retry_delays\[1\] must be"),
        ("labels", "mail", "labels must be a list of str, not str"),
        ("labels", ["mail", 5], r"labels\[1\] must be a str, not int"),
        ("retries", 1.5, "retries must be an int, not float"),
        ("timeout", [5], "timeout must be a timedelta or a number of seconds, not list"),
    ],
)
def test_a_value_within_is_named(
    client: Client, server: Server, option: str, value: Any, says: str
) -> None:
    given: dict[str, Any] = {"delay": 1, option: value}
    with pytest.raises(TypeError, match=says):
        client.schedule(URL, **given)
    with pytest.raises(TypeError, match=says):
        client.schedule_batch([NewSchedule(URL, **given)])
    assert server.requests == []


async def test_a_buffer_refuses_the_one_that_is_wrong() -> None:
    server = Server()
    server.plays(answer(201, {"schedules": [CREATED]}))
    http = httpx.AsyncClient(transport=httpx.MockTransport(server.handle))
    wrong: Any = b"hello"
    async with AsyncPostdate(BASE_URL, KEY, http=http) as client, Buffer(client) as buffer:
        with pytest.raises(TypeError, match=r"^text must be a str, not bytes"):
            await buffer.schedule(URL, delay=1, text=wrong)
        with pytest.raises(ValueError, match=r"^reference has half of a surrogate pair"):
            await buffer.schedule(URL, delay=1, reference="\ud800")
        await buffer.schedule(URL, delay=1, data=memoryview(b"a-b")[::2])
    [batch] = server.bodies
    assert batch["schedules"][0]["targetBodyBase64"] == "YWI="


def test_half_a_surrogate_pair_is_sent_in_json_alone(client: Client, server: Server) -> None:
    server.plays(answer(201, CREATED))
    client.schedule(URL, delay=1, json={"a": "\ud800ü"})
    assert server.requests[0].content.count(rb'"\ud800\u00fc"') == 1
    with pytest.raises(ValueError, match=r"^schedule_ids\[1\] has half"):
        client.cancel_many(["sch_1", "\udcff"])


@pytest.mark.parametrize("kind", [Postdate, AsyncPostdate])
@pytest.mark.parametrize(
    "given",
    [{"base_url": b"http://a"}, {"api_key": b"secret"}, {"retry_for": "5"}, {"timeout": "5"}],
)
def test_so_are_the_options_of_a_client(kind: Any, given: dict[str, Any]) -> None:
    [name] = given
    with pytest.raises(TypeError, match=f"^{name} must be .*, not (bytes|str)$") as caught:
        kind(**{"base_url": BASE_URL, "api_key": KEY} | given)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        *("http://a/?b=c", "http://a/b#c", "http://", "ftp://a", "a"),
        *("http://a:99999", "http://[::1", "http://a/\x1b[31m", "http://é..a"),
    ],
)
def test_an_address_that_no_path_can_follow_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="The address of a Postdate looks like"):
        Postdate(url, KEY)
