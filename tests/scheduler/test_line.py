"""A line to the store: each call gets its own replies, or nobody knows what became of it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from redis import exceptions
from redis.asyncio.connection import AbstractConnection

from scheduler.store.line import Line, packed
from tests.worker.scripted import until


class Transport:
    """Notes what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closing = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None: ...

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.closing = True


@pytest.fixture
async def line() -> Line:
    connection = SimpleNamespace(_writer=SimpleNamespace(transport=Transport()), _reader=None)
    return Line(cast("AbstractConnection", connection))


def call(line: Line, *words: str, count: int = 1) -> asyncio.Future[list[Any]]:
    return line.call(packed([words]), count)


async def test_replies_come_in_the_order_of_the_calls_however_they_are_cut(line: Line) -> None:
    first, second = call(line, "A"), call(line, "B", count=2)
    for at in b"+one\r\n:2\r\n+three\r\n":
        line.data_received(bytes([at]))
    assert await first == [b"one"]
    assert await second == [2, b"three"]


async def test_a_reply_that_nobody_waits_for_any_more_is_not_the_next_calls(line: Line) -> None:
    given_up, following = call(line, "A", count=2), call(line, "B")
    line.data_received(b"+half\r\n")
    given_up.cancel()
    line.data_received(b"+other half\r\n")
    assert not following.done()
    line.data_received(b"+own\r\n")
    assert await following == [b"own"]
    assert line.is_open


async def test_a_reply_that_does_not_come_ends_the_line_for_all(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may come later, and would be taken for another's."""
    monkeypatch.setattr("scheduler.store.line.REPLY_TIMEOUT_S", 0.01)
    first, second = call(line, "A"), call(line, "B")
    await until(lambda: first.done() and second.done())
    for each in (first, second):
        assert isinstance(each.exception(), exceptions.TimeoutError)
    assert not line.is_open
    line.data_received(b"+late\r\n")


async def test_who_has_given_up_still_keeps_the_line_to_its_time(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.store.line.REPLY_TIMEOUT_S", 0.01)
    call(line, "A").cancel()
    await until(lambda: not line.is_open)


async def test_what_is_no_reply_ends_the_line(line: Line) -> None:
    first, second = call(line, "A"), call(line, "B")
    line.data_received(b"HTTP/1.1 400 Bad Request\r\n")
    for each in (first, second):
        with pytest.raises(exceptions.ConnectionError):
            await each
    assert not line.is_open


async def test_a_connection_that_breaks_leaves_what_was_sent_unknown(line: Line) -> None:
    answered, waiting = call(line, "A"), call(line, "B")
    line.data_received(b"+one\r\n")
    line.connection_lost(None)
    assert await answered == [b"one"]
    with pytest.raises(exceptions.ConnectionError):
        await waiting


async def test_an_error_of_the_server_is_one_calls_reply(line: Line) -> None:
    first, second = call(line, "A"), call(line, "B")
    line.data_received(b"-ERR no\r\n+two\r\n")
    assert isinstance((await first)[0], exceptions.ResponseError)
    assert await second == [b"two"]
