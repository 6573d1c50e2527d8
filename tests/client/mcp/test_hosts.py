"""The MCP server as a host runs it: over real pipes, by the SDK's own client."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters

from tests.support import children
from tests.support.commands import own_account, postdate, postdate_json
from tests.support.customer import Customer
from tests.support.processes import PostdateProcess, environment
from tests.support.receiver import Receiver

READING = ["find_schedules", "get_schedule", "why_held", "read_log"]
WRITING = ["schedule_request", "change_schedule", "cancel_schedule"]
TARGET = "https://example.com/mcp"
SOON: dict[str, Any] = {"targetUrl": TARGET, "delay": "1h"}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("schedule_request", {"targetUrl": TARGET}, "triggerAt: "),
    ("schedule_request", {"delay": "1h"}, "targetUrl: schedule_request needs it."),
    ("schedule_request", SOON | {"api_key": "x"}, "api_key: schedule_request has no such"),
    ("schedule_request", {"targetUrl": "ftp://x", "delay": "x"}, "targetUrl: It must be an"),
    ("schedule_request", SOON | {"idempotencyKey": " "}, "An idempotency key has"),
    ("get_schedule", {"scheduleId": "../account"}, "scheduleId must have letters"),
    ("get_schedule", {"scheduleId": "sch_01m7td70g0fw3s9s2m2v2v2v2v"}, "There is no"),
    ("find_schedules", {"limit": 51}, "limit: It must be a whole number"),
    ("find_schedules", {"limit": "5"}, "limit: It must be a whole number"),
    ("find_schedules", {"cursor": "x" * 100_000}, "The filters together are too long for a URL."),
    ("find_schedules", {"lane": "a b"}, "lane: It must have 1 to 64 letters"),
    ("cancel_schedule", {}, "scheduleId: cancel_schedule needs it."),
    ("read_logs", {}, "There is no tool 'read_logs'."),
]
MOST_CHARACTERS = 45_000  # of a whole result
INITIALIZE = {
    "jsonrpc": "2.0",
    "method": "initialize",
    "id": 1,
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
COMMAND = [sys.executable, "-P", "-m", "cli.main", "mcp"]


@pytest.fixture
def settings(postdate_up: PostdateProcess) -> dict[str, str]:
    return own_account(postdate_up, 100)


@asynccontextmanager
async def host(settings: dict[str, str], *options: str) -> AsyncIterator[Client]:
    program, *arguments = [*COMMAND, *options]
    variables = environment(**settings)
    started = StdioServerParameters(command=program, args=arguments, env=variables)
    async with Client(started) as client:
        yield client


async def call(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    """The result of a call that must succeed."""
    text, is_error = await outcome(client, name, **arguments)
    assert not is_error, text
    return dict(json.loads(text))


async def outcome(client: Client, name: str, **arguments: Any) -> tuple[str, bool]:
    done = await client.call_tool(name, arguments)
    [content] = done.content
    assert content.type == "text"
    assert len(content.text) <= MOST_CHARACTERS
    return content.text, done.is_error


async def test_it_only_reads_unless_it_may_write(settings: dict[str, str]) -> None:
    async with host(settings) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == READING
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
        for name in WRITING:
            said, is_error = await outcome(client, name, targetUrl=TARGET, delay="1h")
            assert is_error
            assert said.endswith("this server only reads: start it with --write.")
        assert await call(client, "find_schedules") == {"schedules": [], "nextCursor": None}
        assert client.instructions
        assert client.instructions.endswith("start it with --write.")
    with Customer(settings["url"], settings["api_key"]) as customer:
        assert customer.credits() == 100


async def test_a_schedule_is_made_found_changed_explained_and_cancelled(
    settings: dict[str, str],
) -> None:
    async with host(settings, "--write") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert [*tools] == READING + WRITING
        hints = {name: tool.annotations for name, tool in tools.items()}
        assert [hints[name] and hints[name].destructive_hint for name in WRITING] == [
            False,
            True,
            True,
        ]
        assert [hints[name] and hints[name].idempotent_hint for name in WRITING] == [
            False,
            True,
            True,
        ]
        delay = tools["schedule_request"].input_schema["properties"]["delay"]
        assert delay["description"].startswith("Instead of `triggerAt`: how long from now")

        made = await call(
            client, "schedule_request", targetUrl=TARGET, delay="1h", lane="l", targetBody={"n": 1}
        )
        found = made["scheduleId"]
        shown = await call(client, "get_schedule", scheduleId=found)
        assert shown["targetBody"] == {"n": 1}
        changed = await call(
            client, "change_schedule", scheduleId=found, delay="2h", ifMatch=shown["etag"]
        )
        assert changed["triggerAt"] > shown["triggerAt"]
        said, is_error = await outcome(
            client, "change_schedule", scheduleId=found, delay="3h", ifMatch=shown["etag"]
        )
        assert is_error
        assert said.startswith("The present state is not the one that If-Match")
        [listed] = (await call(client, "find_schedules", lane="l"))["schedules"]
        assert listed["triggerAt"] == changed["triggerAt"]
        postdate_json("lane", "pause", "l", "--note", "they move", **settings)
        await call(client, "change_schedule", scheduleId=found, delay="0s")
        why = await call(client, "why_held", scheduleId=found)
        assert why["why"] == "It is due, and held: lane l is paused."
        assert why["lane"]["pauseNote"] == "they move"
        [held] = (await call(client, "find_schedules", held=True))["schedules"]
        assert held["scheduleId"] == found
        cancelled = await call(client, "cancel_schedule", scheduleId=found)
        assert (cancelled["status"], cancelled["creditsRemaining"]) == ("cancelled", 100)
        [entry] = (await call(client, "read_log", scheduleId=found, status=["all"]))["logs"]
        assert entry["status"] == "cancelled"
        assert (await call(client, "why_held", scheduleId=found))["why"].endswith(
            "it is cancelled."
        )


@pytest.mark.slow
async def test_an_error_is_one_of_the_tool_with_the_words_of_the_api(
    postdate_up: PostdateProcess,
) -> None:
    settings = {"url": postdate_up.base_url, "api_key": postdate_up.api_key}
    async with host(settings, "--write") as client:
        for name, arguments, says in REFUSED:
            said, is_error = await outcome(client, name, **arguments)
            assert (is_error, said[: len(says)]) == (True, says)


@pytest.mark.slow
async def test_a_result_is_bounded_and_says_how_to_go_on(settings: dict[str, str]) -> None:
    with Customer(settings["url"], settings["api_key"]) as customer:
        body = {"targetBodyText": "x" * 100_000, "reference": "r" * 100}
        made = {customer.schedule(f"{TARGET}/{n}", 3600 + n, **body) for n in range(60)}
    async with host(settings) as client:
        seen, arguments, pages = list[str](), {"limit": 50}, 0
        while True:
            page = await call(client, "find_schedules", **arguments)
            seen += [each["scheduleId"] for each in page["schedules"]]
            assert all(each["shortened"] == ["targetBodyText"] for each in page["schedules"])
            pages += 1
            if page["nextCursor"] is None:
                break
            assert page["more"].startswith("There are more: call again")
            arguments["cursor"] = page["nextCursor"]
        assert len(seen) == 60
        assert set(seen) == made
        assert pages > 2
        shown = await call(client, "get_schedule", scheduleId=seen[0])
        assert shown["targetBodyText"].endswith("… (100,000 characters in all)")


@pytest.mark.slow
async def test_a_repeat_of_a_call_without_an_answer_has_its_idempotency_key(
    receiver: Receiver,
) -> None:
    """A host gives up, and calls again with the same arguments."""
    created = json.dumps({"scheduleId": "sch_1"}).encode()
    receiver.answer("/schedule", status=201, body=created, held=True)
    async with host({"url": receiver.url, "api_key": "pd_00_x"}, "--write") as client:
        with pytest.raises(MCPError):
            await client.call_tool("schedule_request", SOON, read_timeout_seconds=0.5)
        receiver.answer("/schedule", status=201, body=created)
        for _ in range(2):
            assert (await call(client, "schedule_request", **SOON))["scheduleId"] == "sch_1"
        await call(client, "schedule_request", **SOON, idempotencyKey=None)
        await call(client, "schedule_request", **SOON, idempotencyKey="mine")
    first, again, another, without, mine = [
        each.headers["idempotency-key"] for each in receiver.at("/schedule")
    ]
    assert first == again
    assert len({again, another, without, mine}) == 4
    assert mine == "mine"
    assert [each.headers["x-api-key"] for each in receiver.at("/schedule")] == ["pd_00_x"] * 5


@pytest.mark.slow
def test_nothing_but_the_protocol_is_on_standard_output(settings: dict[str, str]) -> None:
    lines = [
        INITIALIZE,
        {"method": "notifications/initialized"},
        {"method": "tools/call", "id": 2, "params": {"name": "find_schedules", "arguments": {}}},
    ]
    process = children.start(
        COMMAND,
        env=environment(**settings),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        for line in lines:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **line}) + "\n")
        process.stdin.write("this is no JSON\n")
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        rest, _ = process.communicate(timeout=30)  # the host has gone
    assert {each.get("id") for each in answers} == {1, 2}
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())
    assert process.returncode == 0


@pytest.mark.slow
def test_ctrl_c_ends_it_though_standard_input_is_open(settings: dict[str, str]) -> None:
    process = children.start(
        COMMAND, env=environment(**settings), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == -signal.SIGINT


def test_without_a_key_or_the_sdk_it_says_what_to_do() -> None:
    done = postdate("mcp")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: There is no API key: set POSTDATE_API_KEY.\n"
    assert postdate("mcp", "--api-key", "pd_00_x").returncode == 2
    without = "import sys; sys.modules['mcp'] = sys.modules['mcp_types'] = None\n"
    for program in ("from cli.main import main", "from postdate.mcp import main"):
        code = f"{without}{program}\nsys.argv[1:] = {['mcp'] * ('cli' in program)}\nmain()"
        ended = subprocess.run(
            [sys.executable, "-P", "-c", code],
            env=environment(api_key="pd_00_x", url="http://127.0.0.1:1"),
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (ended.returncode, ended.stdout) == (1, "")
        says = ended.stderr.removeprefix("Error: ")
        assert says.startswith("It needs the MCP SDK: pip install 'postdate-client[mcp]'")
