"""What operators should look after, judged for System; and as much of it as concerns every account.
Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from api.dashboard.attention.needs import (
    Act,
    Attention,
    Meter,
    Need,
    at_this_rate,
    folded,
    in_order,
    level,
)
from api.dashboard.formats import number, roughly, share
from api.dashboard.operators.impersonation import address_of
from api.dashboard.viewer.session import ROOT
from scheduler.store.operators.census import Due
from scheduler.store.operators.heartbeats import Process
from scheduler.store.operators.restore import Held
from scheduler.store.operators.roster import RosterLook
from scheduler.store.operators.system import ShardState

SILENT_MS = 5000
# System names an account from so many failures of two hours on, and from such a share.
_LEAST_FAILURES, _MUCH_FAILED = 10, (0.05, 0.5)
_PAGE = f"{ROOT}/system"


def hold_needs(held: Held) -> list[Need]:
    """Pure."""
    if held.latest_ms is None:
        return []
    words = "The service is on hold: nothing starts"
    if held.since_ms is None:
        words = f"{held.on_hold} of {held.shards} parts of the service are on hold: nothing starts"
        words += " there"
    fields = {"since": str(held.latest_ms)}
    act = Act("Resume", f"{ROOT}/system/resume", fields, operators=True)
    times = [("began", held.latest_ms)]
    return [Need("hold", "alarm", words, times=times, act=act)]


def worker_needs(*, alive: bool) -> list[Need]:
    return [] if alive else [Need("workers", "alarm", "No worker is alive: nothing is sent")]


def store_needs(meters: Sequence[Meter]) -> list[Need]:
    """For account holders, who cannot make room: only what soon refuses their requests. Pure."""
    full = max(meters, key=lambda each: each.percent, default=None)
    if full is None or all(each.level != "alarm" for each in meters):
        return []
    ends = [each.full_in_ms for each in meters if each.full_in_ms is not None]
    words = f"The service's memory is {full.percent:.0f} % full: at 100 % nothing new is stored"
    if ends:
        words += f", in {roughly(min(ends))}"
    return [Need("store", "alarm", words)]


def service_needs(
    workers: Sequence[Process],
    due: Mapping[int, Due],
    shards: Sequence[ShardState],
    meters: Sequence[Meter],
    look: RosterLook | None,
    now_ms: int,
) -> Attention:
    """But for a hold, of which System has more to say. Without a `look` the accounts could not be
    read."""
    unread = [f"shard {each.number:02}" for each in shards if each.number not in due]
    if look is None:
        unread.append("the accounts")
        look = RosterLook([], [], 0, 0)
    if look.damaged:
        unread.append(f"the accounts {', '.join(look.damaged[:3])}")
    if look.looked_at < look.total:
        unread.append(f"{number(look.total - look.looked_at)} more accounts")
    needs = _of_workers(workers, now_ms) + _of_shards(due, shards, now_ms)
    return Attention(in_order(needs + _of_memory(meters) + _of_accounts(look)), unread, now_ms)


def _of_workers(workers: Sequence[Process], now_ms: int) -> list[Need]:
    needs, alive = list[Need](), False
    for each in workers:
        alive = alive or not each.is_lost(now_ms)
        if now_ms - each.heard_at_ms > SILENT_MS:
            name = f"{each.says.get('host', '')} {each.says.get('pid', '')}"
            how = " is lost" if each.is_lost(now_ms) else " is silent"
            times = [("last heard", each.heard_at_ms)]
            needs.append(Need("workers", "warning", "Worker ", name, how, times))
    words = f"{len(needs)} workers are lost or silent"
    return worker_needs(alive=alive) + folded(needs, words, "")


def _of_shards(due: Mapping[int, Due], shards: Sequence[ShardState], now_ms: int) -> list[Need]:
    """Those that cannot be read are left out."""
    needs, overdue = list[Need](), 0
    for each in shards:
        late = due.get(each.number)
        count = round(late.overdue) if late and late.oldest_ms > 1000 else 0
        if not count and each.backlog_since_ms is None:
            continue
        since_ms = each.backlog_since_ms
        if since_ms is None:
            since_ms = now_ms - (late.oldest_ms if late else 0)
        overdue += count
        words = f"{number(count)} overdue in shard {each.number:02}"
        needs.append(
            Need("shard", "alarm" if count else "warning", words, times=[("since", since_ms)])
        )
    return folded(needs, f"{len(needs)} shards have a backlog: {number(overdue)} overdue", "")


def _of_memory(meters: Sequence[Meter]) -> list[Need]:
    needs = list[Need]()
    for each in meters:
        server, name = each.server, f"Server {each.server.name}: " if each.server.name else ""
        if each.level:
            words = f"{name}{share(server.used_bytes, server.most_bytes)} of its memory is used"
            if not name:
                words = words.replace("its", "the store's")
            needs.append(
                Need("store", each.level, words + at_this_rate("full in", each.full_in_ms))
            )
        needs += [Need("store", "alarm", f"{name}{warning}") for warning in server.warnings]
    return needs


def _of_accounts(look: RosterLook) -> list[Need]:
    failing = [each for each in look.rows if each.failed >= _LEAST_FAILURES]
    failing.sort(key=lambda each: -each.failed)
    needs = list[Need]()
    for each in failing:
        how = level(each.failed / each.fired, _MUCH_FAILED)
        rest = f" failed in two hours, {share(each.failed, each.fired)} of all"
        words, page = f"{number(each.failed)} requests of ", address_of(each.account_id)
        if how:
            needs.append(Need("account", "warning", words, each.name, rest, (), page, "Look"))
    page = f"{_PAGE}?sort=-failed#accounts"
    return folded(needs, f"{len(needs)} accounts have many failures", page)
