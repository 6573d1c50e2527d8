"""The tools: each a call of the API or two, with a result of bounded size."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from typing import Any, NamedTuple, Protocol

from postdate.arguments import path_part
from postdate.calls import as_json
from postdate.checks import checked_key
from postdate.results import HELD_WORDS

# `make schema` writes it from the server's tables.
_INPUTS: Mapping[str, Any] = json.loads(files(__package__).joinpath("inputs.json").read_text())
_USUAL_ITEMS, _MOST_ITEMS = 20, 50
_MOST_CHARACTERS = 40_000
_LONGEST_VALUE = 2000


class Answer(NamedTuple):
    """`replayed`: an earlier call with the same idempotency key has done it."""

    body: dict[str, Any]
    etag: str | None = None
    replayed: bool = False


class Asker(Protocol):
    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        key: str | None = None,
        if_match: str | None = None,
    ) -> Answer:
        """The answer to a call of the API. Raises PostdateError."""
        ...


class Tool(NamedTuple):
    """`creates`: a repeat would cost a second credit, but for the idempotency key."""

    name: str
    title: str
    description: str
    do: Callable[[Asker, Mapping[str, Any]], Awaitable[dict[str, Any]]]
    writes: bool = False
    creates: bool = False
    destroys: bool = False

    @property
    def inputs(self) -> dict[str, Any]:
        return dict(_INPUTS[self.name])


def text_of(answer: dict[str, Any]) -> str:
    """Compact JSON."""
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))


def shortened(answer: dict[str, Any]) -> dict[str, Any]:
    """Without fields that have no value, and with the beginnings of long ones, which it names. No
    `callbackUrl` is a value: that there is no report."""
    found, cut = dict[str, Any](), list[str]()
    for name, value in answer.items():
        if value is None and name != "callbackUrl":
            continue
        text = value if isinstance(value, str) else text_of(value)
        if len(text) > _LONGEST_VALUE:
            value = f"{text[:_LONGEST_VALUE]}… ({len(text):,} characters in all)"
            cut.append(name)
        found[name] = value
    return found | ({"shortened": cut} if cut else {})


async def _page(api: Asker, path: str, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """As many of a list as were asked for and fit."""
    query = {each: _asked(value) for each, value in arguments.items() if value is not None}
    most = query.get("limit", _USUAL_ITEMS)
    if not isinstance(most, int) or not 1 <= most <= _MOST_ITEMS:
        raise ValueError(f"limit: It must be a whole number from 1 to {_MOST_ITEMS}.")
    while True:
        answer = await api.ask("GET", path, query={**query, "limit": most})
        items = [shortened(each) for each in answer.body[name]]
        if most == 1 or len(text_of({name: items})) <= _MOST_CHARACTERS:
            break
        most = max(1, min(most, len(items)) // 2)
    cursor = answer.body["nextCursor"]
    found = {name: items, "nextCursor": cursor}
    if cursor is not None:
        found["more"] = "There are more: call again with this nextCursor as cursor."
    return found


def _asked(value: Any) -> Any:
    """As queries have it."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else value


async def _find(api: Asker, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return await _page(api, "/schedule", "schedules", arguments)


async def _log(api: Asker, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return await _page(api, "/stats/logs", "logs", arguments)


async def _get(api: Asker, arguments: Mapping[str, Any]) -> dict[str, Any]:
    answer = await api.ask("GET", _path(arguments))
    return {**shortened(answer.body), "etag": answer.etag}


async def _why(api: Asker, arguments: Mapping[str, Any]) -> dict[str, Any]:
    schedule = (await api.ask("GET", _path(arguments))).body
    names = ("scheduleId", "status", "triggerAt", "nextAttemptAt", "attempts", "errorMessage")
    found = {"why": _words(schedule), **{name: schedule[name] for name in names}}
    found["heldBy"] = schedule["heldBy"]
    if schedule["status"] == "scheduled":
        account = (await api.ask("GET", "/account")).body
        found["account"] = {name: account[name] for name in _PAUSE}
        if schedule["lane"] is not None:
            lane = (await api.ask("GET", "/lanes/" + path_part("lane", schedule["lane"]))).body
            found["lane"] = lane
    return shortened(found)


_PAUSE = ("paused", "pausedUntil", "pausedBy", "pauseNote")


def _words(schedule: Mapping[str, Any]) -> str:
    held, status = schedule["heldBy"], schedule["status"]
    if status != "scheduled":
        return f"It does not wait: it is {status}."
    if held is None:
        at = schedule["nextAttemptAt"] or schedule["triggerAt"]
        return f"Nothing holds it: it goes out at {at}, or is with a worker since."
    words = HELD_WORDS.get(held["cause"], held["cause"]).format(held["lane"])
    if held["until"] is not None:
        words += f", {'about ' if held['estimated'] else ''}until {held['until']}"
    return f"It is due, and held: {words}."


async def _schedule(api: Asker, arguments: Mapping[str, Any]) -> dict[str, Any]:
    fields = dict(arguments)
    key = checked_key(fields.pop("idempotencyKey"))
    answer = await api.ask("POST", "/schedule", body=as_json(fields), key=key)
    return {**answer.body, "replayed": answer.replayed}


async def _change(api: Asker, arguments: Mapping[str, Any]) -> dict[str, Any]:
    fields = {n: value for n, value in arguments.items() if n not in ("scheduleId", "ifMatch")}
    if_match = arguments.get("ifMatch")
    answer = await api.ask("PATCH", _path(arguments), body=as_json(fields), if_match=if_match)
    return {**shortened(answer.body), "etag": answer.etag}


async def _cancel(api: Asker, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return (await api.ask("DELETE", _path(arguments))).body


def _path(arguments: Mapping[str, Any]) -> str:
    return "/schedule/" + path_part("scheduleId", arguments["scheduleId"])


TOOLS = (
    Tool(
        "find_schedules",
        "Find schedules",
        "Lists schedules that wait, by time; or with `status` those that have ended and are kept, "
        "newest first. `held: true` lists due ones that something keeps from starting.",
        _find,
    ),
    Tool(
        "get_schedule",
        "Read a schedule",
        "Shows a schedule as it stands, and how its request went. It is kept for a day after its "
        "end, for a week if it failed. Values that look like secrets are masked.",
        _get,
    ),
    Tool(
        "why_held",
        "Why a schedule has not gone out",
        "Says what keeps a schedule from starting and until when, with the state of its lane and "
        "the pause of the account.",
        _why,
    ),
    Tool(
        "read_log",
        "Read the log",
        "Lists what became of requests, newest first; with `scheduleId` each attempt of one "
        "schedule, the oldest first.",
        _log,
    ),
    Tool(
        "schedule_request",
        "Schedule a request",
        "Has a URL called at a chosen time, for one credit. Say when with `delay` or `triggerAt`. "
        "A call whose answer you did not get: repeat it with the same arguments.",
        _schedule,
        writes=True,
        creates=True,
    ),
    Tool(
        "change_schedule",
        "Change a schedule",
        "Changes the given fields of a schedule that waits, each as a whole; null clears one. "
        "Other fields stay.",
        _change,
        writes=True,
        destroys=True,
    ),
    Tool(
        "cancel_schedule",
        "Cancel a schedule",
        "Cancels a schedule that waits, and gives its credit back. Safe to repeat.",
        _cancel,
        writes=True,
        destroys=True,
    ),
)
