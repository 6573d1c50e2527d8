"""Pure functions: formats, curl lines, shared reads."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from api.dashboard import formats
from api.dashboard.requests.entry import Bar, waterfall
from api.dashboard.requests.text import MOST_BYTES, curl_of, indented
from api.dashboard.shared import Shared
from scheduler.models import BodyKind, Outcome, Phases, Request, Status
from scheduler.store.operators.system import server_warnings

_STAND_IN = f"""\
#!{sys.executable}
import os, sys
sys.stdout.write(sys.argv[5] + chr(10))
sys.stdout.flush()
piped = sys.argv[6] == "--data-binary"
os.write(1, sys.stdin.buffer.read() if piped else os.fsencode(sys.argv[7]))
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            [formats.duration(ms) for ms in (0, 999, 1000, 1500, 30_000, 60_000, 125_000)],
            ["0 ms", "999 ms", "1 s", "1.5 s", "30 s", "1 min", "2 min 5 s"],
        ),
        (
            [formats.duration(ms) for ms in (3_600_000, 90_061_000, None)],
            ["1 h", "1 d 1 h", "–"],  # noqa: RUF001
        ),
        (
            [formats.until(ms, 1_000_000) for ms in (1_000_400, 1_065_900, 995_000)],
            ["now", "in 1 min 5 s", "5 s ago"],
        ),
        (
            [formats.soon(ms, 1_000_000) for ms in (1_000_400, 1_065_900, 995_000, 800_000)],
            ["now", "in 1 min", "5 s ago", "3 min ago"],
        ),
        (
            [formats.share(*each) for each in ((0, 0), (1, 1), (99_999, 100_000), (0, 5), (1, 3))],
            ["–", "100 %", "99.9 %", "0.0 %", "33.3 %"],  # noqa: RUF001
        ),
        ([formats.size(n) for n in (5, 2048, 3 << 20)], ["5 B", "2.0 KiB", "3.0 MiB"]),
        ([formats.signed(n) for n in (0, 1200, -3)], ["–", "+1,200", "\u22123"]),  # noqa: RUF001
        (
            [formats.url("https://a.example/<x>?token=abc")],
            ['<span class="scheme">https://</span>a.example/&lt;x&gt;?token=••••••••'],
        ),
    ],
    ids=["duration", "long", "until", "soon", "share", "size", "signed", "url"],
)
def test_figures_are_told_in_few_words(words: list[str], expected: list[str]) -> None:
    assert words == expected


def test_a_curl_line_is_what_a_shell_makes_the_request_of() -> None:
    body = b"""{"it's": "$HOME `x`"}"""
    request = Request(0, "PUT", "https://a.example/x?y='1'&z", {"X-Key": "k", "X-A": "a b"}, body)
    words = shlex.split(curl_of(request).replace("\\\n", " "))
    assert words[:4] == ["curl", "--request", "PUT", "https://a.example/x?y='1'&z"]
    pairs = list(zip(words[4::2], words[5::2], strict=True))
    assert pairs == [
        ("--header", "Content-Type: application/json"),
        ("--header", "X-Key: <X-Key>"),
        ("--header", "X-A: a b"),
        ("--data-raw", body.decode()),
    ]


def test_a_curl_line_of_nothing_but_a_url_is_short() -> None:
    assert curl_of(Request(0, "GET", "https://a.example/")) == (
        "curl --request GET https://a.example/"
    )


@pytest.mark.parametrize("body", [b"a=1\n@b 'c' $(d)", b"\x00\xff\n", b""])
def test_a_curl_line_carries_any_bytes(tmp_path: Path, body: bytes) -> None:
    """Run by a shell, with something in curl's place that shows what it is given."""
    stand_in = tmp_path / "curl"
    stand_in.write_text(_STAND_IN)
    stand_in.chmod(0o755)
    request = Request(0, "POST", "https://a.example/", {}, body, body_kind=BodyKind.BINARY)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", curl_of(request)], capture_output=True, check=True, env={"PATH": path}
    )
    assert done.stdout == b"Content-Type: application/octet-stream\n" + body


async def test_one_read_serves_all_who_want_it() -> None:
    shared, reads = Shared(), 0

    async def read() -> int:
        nonlocal reads
        reads += 1
        await asyncio.sleep(0)
        return reads

    assert await asyncio.gather(*(shared.get("a", 60, read) for _ in range(50))) == [1] * 50
    assert await shared.get("a", 60, read) == 1
    assert [await shared.get("b", 0, read) for _ in range(2)] == [2, 3]
    shared._swept_s = 0.0
    assert await shared.get("c", 60, read) == 4
    assert set(shared._entries) == {"a", "c"}, "what is no longer good is not kept"


async def test_one_who_goes_away_does_not_take_the_read_along() -> None:
    shared, go = Shared(), asyncio.Event()

    async def read() -> str:
        await go.wait()
        return "read"

    leaving = asyncio.create_task(shared.get("a", 60, read))
    staying = asyncio.create_task(shared.get("a", 60, read))
    await asyncio.sleep(0)
    leaving.cancel()
    go.set()
    assert await staying == "read"


async def test_a_read_that_failed_is_made_again() -> None:
    shared, failures = Shared(), [ValueError("once")]

    async def read() -> str:
        if failures:
            raise failures.pop()
        return "read"

    with pytest.raises(ValueError, match="once"):
        await shared.get("a", 60, read)
    assert await shared.get("a", 60, read) == "read"


def test_operators_are_warned_of_what_goes_wrong() -> None:
    assert server_warnings({"maxmemory": 0, "used_memory": 10**9, "aof_enabled": 1}) == []
    bad = {
        "maxmemory": 100,
        "used_memory": 95,
        "maxmemory_policy": "allkeys-lru",
        "aof_enabled": 0,
        "aof_last_write_status": "err",
        "rdb_last_bgsave_status": "err",
        "master_link_status": "down",
    }
    assert len(server_warnings(bad)) == 6
    assert server_warnings({"maxmemory": 100, "used_memory": 95})[0].startswith(
        "Memory is 95 % full"
    )
    assert server_warnings({"maxmemory": 100, "used_memory": 815})[0].startswith("Memory is full:")


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"{}", "{}"),
        (b'{"a":[1,2]}', '{\n  "a": [\n    1,\n    2\n  ]\n}'),
        (b'{"a":"[[[{,,\\"]"}', '{\n  "a": "[[[{,,\\"]"\n}'),
        (b'{"a":"\\ud800"}', '{"a":"\\ud800"}'),
    ],
)
def test_a_body_is_on_many_lines_if_it_can_be(body: bytes, shown: str) -> None:
    assert indented(body) == shown


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":' * 900 + b"[" + b"1," * 100_000 + b"1]" + b"}" * 900,
        b'{"a":[' + b"[" * 900 + b"1" + b"]" * 900 + b",1" * 100_000 + b"]}",
        b'{"a":[' + b"{}," * 80_000 + b"{}]}",
        b'{"a":"' + b"x" * 700_000 + b'"}',
    ],
    ids=["deep and wide", "deep beside wide", "many", "long"],
)
def test_no_body_is_huge_when_it_is_shown(body: bytes) -> None:
    assert len(indented(body)) <= max(len(body), MOST_BYTES)


def test_a_wide_body_of_the_largest_size_is_on_many_lines() -> None:
    body = b'{"a":[' + b'{"n":1},' * 20_000 + b"1]}"
    assert indented(b'{"a":[' + b"1," * 60_000 + b"1]}").count("\n") > 60_000
    assert len(indented(body)) <= MOST_BYTES


def test_bars_follow_on_one_another_and_what_broke_stands_out() -> None:
    whole = Outcome(Status.FAILED, 500, 200, "Oh", phases=Phases(50, 100, None, 50, 0))
    assert waterfall(whole) == [
        Bar("Resolve", "way", 0.0, 25.0, 50),
        Bar("Connect", "way", 25.0, 50.0, 100),
        Bar("First byte", "wait", 75.0, 25.0, 50),
        Bar("Last byte", "read", 99.0, 1.0, 0),
    ]
    dead = Outcome(Status.FAILED, 0, 0, "Connection refused", phases=Phases(None, 0))
    assert waterfall(dead) == [Bar("Connect", "broke", 0.0, 1.0, 0)]
    assert waterfall(Outcome(Status.COMPLETED, 200, 1, "")) == waterfall(None) == []
