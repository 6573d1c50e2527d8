"""Prints findings, for people and for machines."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from cli.bench.sizing import FULL, Carried, Figure, Findings, alone
from cli.bench.stage import Measured
from scheduler.settings import without_password

_NAMES = {"client": "the client", "api": "the API", "store": "the store", "worker": "the worker"}


def as_text(found: Findings, measured: Measured) -> str:
    return "\n".join(
        [
            *(f"! {sentence}" for sentence in found.noise),
            f"Medians of {found.rounds} rounds, and between what these lay. {_store(measured)}\n",
            _figures(found),
            _meaning(found),
        ]
    )


def _store(measured: Measured) -> str:
    if measured.own:
        return "What was accepted was on disk before the answer."
    servers = f", {measured.servers} servers" * (measured.servers > 1)
    return f"The store was {without_password(measured.redis_url)} ({measured.version}{servers})."


def _figures(found: Findings) -> str:
    late, each = found.lateness.p99_ms, found.waiting_bytes_each
    million_mib = found.million_waiting_bytes / 2**20
    return f"""\
accepted   {_rate(found.accept.per_second)}
           {_costs(found.accept, "client", "api", "store")}
           {_saturated(found.accept, found.cores)}
fired      {_rate(found.fire.per_second)}
           {_costs(found.fire, "worker", "store", "client")}
           {_saturated(found.fire, found.cores)}
late       p50 {found.lateness.p50_ms.median:.1f} ms, p99 {late.median:.1f} ms \
({late.least:.1f} to {late.most:.1f}), at {found.lateness.per_second:.0f} a second
memory     {each.median:,.0f} bytes for each that waits: {million_mib:,.0f} MiB a million
"""


def _meaning(found: Findings) -> str:
    need = found.needed
    nodes = math.ceil(need.store_cores)
    cluster = f" A server has one for its commands: a cluster of {nodes} nodes." * (nodes > 1)
    return f"""\
With a core each an API process accepts {alone(found.accept, "api"):,.0f} a second, and a worker \
fires {alone(found.fire, "worker"):,.0f}.
For {need.per_second:,.0f} a second, accepted and fired, at {100 * FULL:.0f} % of each core: \
{_count(need.api_processes, "API process", "API processes")}, {_count(need.workers, "worker")}, \
{need.store_cores:.2f} cores of the store.{cluster}"""


def as_json(found: Findings, measured: Measured) -> dict[str, Any]:
    return {"store": measured.as_json(), **msgspec.to_builtins(found)}


def _rate(figure: Figure) -> str:
    return f"{figure.median:,.0f} a second ({figure.least:,.0f} to {figure.most:,.0f})"


def _costs(carried: Carried, *names: str) -> str:
    told = [f"{_NAMES[n]} {carried.cpu_us_each[n]:.0f} us" for n in names if carried.cpu_us_each[n]]
    return "CPU each: " + ", ".join(told)


def _saturated(carried: Carried, cores: int) -> str:
    busiest = max(carried.core_share, key=lambda name: carried.core_share[name])
    share = f"{_NAMES[busiest]} had {100 * carried.core_share[busiest]:.0f} % of a core"
    what = {
        "machine": f"the machine, whose {cores} cores were all in use",
        "waiting": "none, all waited for one another or the disk",
    }
    return f"saturated first: {what.get(carried.saturated, _NAMES[busiest])}; {share}"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
