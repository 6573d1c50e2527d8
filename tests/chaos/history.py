"""The three JSON files of a run, and the shapes of their entries.

history.jsonl    the run, each call's beginning and end, each fault's beginning and end
arrivals.jsonl   each request as the target saw it
final.json       answers of the API and of `postdate check` after all had healed

Times are milliseconds since the Unix epoch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

# The path of callbacks: how the target behaves follows.
REPORTS = "/ended/"
NO_CALLBACK = "none"
NOT_OF_DOOR = ("", "", "")
HISTORY, ARRIVALS, FINAL = "history.jsonl", "arrivals.jsonl", "final.json"

Result = Literal["ok", "fail", "unknown"]
Kind = Literal[
    "create", "batch", "change", "cancel", "cancel many", "replay", "replay many", "read",
    "rotate", "signing", "lane", "rule", "rule change", "rule pause", "rule resume", "rule trigger",
    "rule delete", "rule read", "occurrence change", "resend", "keys", "rotate keys",
]  # fmt: skip


def answer_to(path: str, attempt: int) -> str:
    """The body with which a target answers a schedule's own request."""
    return f"{path}#{attempt}"


def body_of(tag: str) -> str:
    """The body of a message of the QStash door; other schedules have none."""
    return f'{{"tag": "{tag}"}}'


class Run(msgspec.Struct, frozen=True, tag="run", tag_field="type"):
    """How the run was set up. `granted` is what each account got; `margin_ms` is what
    recovery may take beyond a lease; `calling_back` are the accounts with a callback as default."""

    seed: int
    seconds: float
    store: str
    granted: int
    lease_ms: int
    margin_ms: int
    fire_timeout_ms: int
    calling_back: tuple[str, ...] = ()


class Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    """A schedule as a client wants it. `tag` is the client's own name for it, `version` counts its
    changes; both travel in the target's query, so that any trace of it tells what it is of. With
    `on_existing` it may become the request of another schedule, which has its tag from then on.
    `callback`: how the target of its callback behaves; None: as the account has it;
    `failure_callback`: that of failures alone, if it is another one. `included`: the report is to
    have the target's answer. `message`: it is made by the QStash door; there `delay_ms` says that
    it is due so long after it was read, and `once` that it has a deduplication id."""

    tag: str
    behaviour: str
    trigger_at_ms: int
    version: int = 0
    delivery: str = "at-least-once"
    expires_at_ms: int | None = None
    bad: bool = False
    retries: int = 0
    delays_ms: tuple[int, ...] = ()
    timeout_s: int | None = None
    reference: str | None = None
    on_existing: Literal["keep", "replace"] | None = None
    max_wait_ms: int | None = None
    lane: str | None = None
    callback: str | None = None
    callback_on: Literal["executed", "failed"] = "executed"
    failure_callback: str | None = None
    included: bool = False
    retry_on: Literal["any"] | None = None
    labels: tuple[str, ...] = ()
    message: bool = False
    delay_ms: int | None = None
    once: bool = False

    @property
    def asks(self) -> bool:
        """Whether it asks for the answer: only what is reported somewhere may."""
        return self.included and (self.callback != NO_CALLBACK or bool(self.failure_callback))

    @property
    def is_told_as_message(self) -> bool:
        """Whether its end is reported as QStash does. The account's own URL gets a usual report."""
        return self.message and self.callback is not None

    @property
    def failure_path(self) -> str:
        return f"{REPORTS}{self.failure_callback}?tag={self.tag}&v={self.version}&of=failure"

    @property
    def path(self) -> str:
        return f"/{self.behaviour}?tag={self.tag}&v={self.version}"

    @property
    def callback_path(self) -> str:
        return f"{REPORTS}{self.callback}?tag={self.tag}&v={self.version}"


class Ruled(msgspec.Struct, frozen=True, omit_defaults=True):
    """A recurring schedule as a client wants it: sent each `every_ms` from `anchor_ms` on, or, with
    0, by cron at each whole minute. `tag` and `version` are as of `Asked`; a version that changes
    no times has those of the one before."""

    tag: str
    behaviour: str
    every_ms: int
    anchor_ms: int = 0
    version: int = 0
    lane: str | None = None
    labels: tuple[str, ...] = ()
    message: bool = False

    @property
    def path(self) -> str:
        return f"/{self.behaviour}?tag={self.tag}&v={self.version}"


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call's limits of a lane, as a whole, in each second; `lane` is empty for the account, which
    has pauses only. `paused_until_ms`: it begins a pause; `resumed`: it ends one."""

    lane: str
    rate: int | None = None
    burst: int = 1
    parallelism: int | None = None
    paused_until_ms: int | None = None
    resumed: bool = False


class Invoked(msgspec.Struct, frozen=True, tag="invoke", tag_field="type", omit_defaults=True):
    """A call on its way. `asked` is what a create, batch or change wants, `schedule_id` what a
    change, cancel, replay or read is about, `schedule_ids` what a call for many is about, unless
    that has a filter; `key` is the Idempotency-Key. `ruled` is what a rule's create or change
    wants, `rule` the tag of the rule that a call is about. `door`: the QStash door takes it."""

    op: int
    client: str
    account: str
    call: Kind
    wall_ms: float
    asked: list[Asked] = []
    schedule_id: str = ""
    schedule_ids: list[str] = []
    key: str = ""
    limits: Limits | None = None
    ruled: Ruled | None = None
    rule: str = ""
    door: bool = False


class Secret(msgspec.Struct, frozen=True, rename="camel"):
    """A signing secret, as GET /signing has it."""

    secret_id: str
    secret: str
    created_at: str
    expires_at: str | None


class Seen(msgspec.Struct, frozen=True):
    """What GET said of a schedule at that moment."""

    status: str
    executed_at: str | None
    callback: dict[str, Any] | None


class Answered(msgspec.Struct, frozen=True, tag="answer", tag_field="type", omit_defaults=True):
    """A call's end. ok: done. fail: certainly not done. unknown: no answer, or one that says so.
    `ids` has an id for each that was asked, or its code where it was refused, and `existing` the
    places of those that had waited before; `became`, by id, the status of a cancelled one and the
    new id of a replayed one, or a code. `rule`
    is the id of a rule, and then `ids` has its occurrence. `seen` is what a read saw, `calm_until`
    until when a lane is calm, `keys` the current and the next key of the QStash door."""

    op: int
    result: Result
    wall_ms: float
    status: int = 0
    ids: list[str | int] = []
    existing: list[int] = []
    became: dict[str, str | int] = {}
    secrets: list[Secret] = []
    keys: tuple[str, ...] = ()
    rule: str = ""
    seen: Seen | None = None
    calm_until: str | None = None
    replayed: bool = False
    error: str = ""


class Fault(msgspec.Struct, frozen=True, tag="fault", tag_field="type"):
    """A fault begins or ends; `number` ties the two together."""

    number: int
    what: str
    target: str
    phase: Literal["begin", "end"]
    wall_ms: float


Event = Run | Invoked | Answered | Fault


class Arrival(msgspec.Struct, frozen=True):
    """A request as the target saw it, by the target's clock at its first byte. `signed` are the
    headers webhook-id, webhook-timestamp and webhook-signature, `door` those that begin with
    Upstash- and end in Message-Id, Retried and Signature."""

    at_ms: float
    schedule_id: str
    attempt: int
    trigger_at: str
    path: str
    signed: tuple[str, str, str] = ("", "", "")
    body: str = ""
    door: tuple[str, str, str] = NOT_OF_DOOR


class Entry(msgspec.Struct, frozen=True, rename="camel"):
    """An entry of the log, as GET /stats/logs tells it."""

    schedule_id: str
    created_at: str
    scheduled_at: str
    executed_at: str | None
    target_url: str
    status: str
    status_code: int
    response_time_ms: int
    error_message: str
    attempt: int = 1
    next_attempt_at: str | None = None
    recurring_id: str | None = None
    labels: tuple[str, ...] = ()


class Skipped(msgspec.Struct, frozen=True, rename="camel"):
    """An entry `skipped` of the log: so many times of a rule were missed, the first at
    `scheduled_at`."""

    recurring_id: str
    scheduled_at: str
    missed: int


class Account(msgspec.Struct, frozen=True):
    """One account when all had healed; `schedules` has the answer of GET /schedule/{id} for each id
    that a client or the log knows, None for a 404; `waiting` the ids that GET /schedule lists;
    `rules` the answers of GET /recurring. `skipped` has the log's entries of that status."""

    credits: int
    stats: dict[str, Any]
    log: list[Entry]
    schedules: dict[str, dict[str, Any] | None]
    waiting: list[str]
    secrets: list[Secret] = []
    rules: list[dict[str, Any]] = []
    skipped: list[Skipped] = []


class Final(msgspec.Struct, frozen=True):
    """The end: when it was read, each account, what `postdate check` found, and what processes did
    that they should not have."""

    read_at_ms: float
    accounts: dict[str, Account]
    problems: list[str]
    mishaps: list[str] = []


class Recorder:
    """Writes a history as it happens, line by line; may be used from any thread."""

    def __init__(self, directory: Path) -> None:
        self._file = (directory / HISTORY).open("ab", buffering=0)
        self._lock = threading.Lock()
        self._numbers = 0

    def number(self) -> int:
        """A number that nothing else in this history has."""
        with self._lock:
            self._numbers += 1
            return self._numbers

    def write(self, event: Event) -> None:
        line = msgspec.json.encode(event) + b"\n"
        with self._lock:
            self._file.write(line)

    def close(self) -> None:
        self._file.close()


def now_ms() -> float:
    return time.time_ns() / 1e6


def read_history(directory: Path) -> list[Event]:
    return list(_lines(directory / HISTORY, Event))


def read_arrivals(directory: Path) -> list[Arrival]:
    return list(_lines(directory / ARRIVALS, Arrival))


def read_final(directory: Path) -> Final:
    return msgspec.json.decode((directory / FINAL).read_bytes(), type=Final)


def to_ms(moment: str) -> float:
    """ISO 8601, as the API writes it, to milliseconds since the epoch."""
    return round(datetime.fromisoformat(moment).timestamp() * 1000, 3)


def iso(ms: float) -> str:
    """The other way round, to the millisecond."""
    text = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def _lines(path: Path, kind: Any) -> Iterator[Any]:
    """A last line that a kill cut off is not read."""
    decoder = msgspec.json.Decoder(kind)
    for line in path.read_bytes().split(b"\n")[:-1]:
        yield decoder.decode(line)
