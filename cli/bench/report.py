"""How findings are told: to people, and to machines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from cli.bench.sizing import FULL, MILLION, Carried, Figure, Findings, alone

_BUSY_CORES = 0.05
_NAMES = {"client": "the client", "api": "the API", "store": "the store", "worker": "the worker"}


def as_text(found: Findings, told: Mapping[str, Any]) -> str:
    """`told` is about the store, as `Ground` has it."""
    return "\n".join(
        [
            *(f"! {sentence}" for sentence in [*found.noise, *_noise(told)]),
            f"Medians of {found.rounds} rounds, and between what these lay. {_store(told)}\n",
            _figures(found),
            _meaning(found),
        ]
    )


def _noise(told: Mapping[str, Any]) -> list[str]:
    busy = told.get("backgroundCores", 0.0)
    if busy < _BUSY_CORES:
        return []
    sentence = (
        f"Others had {busy:.2f} cores of the store before: as much was taken off its CPU, and what"
        " they store meanwhile is in the memory of each."
    )
    return [sentence]


def _store(told: Mapping[str, Any]) -> str:
    if told["own"]:
        return "What was accepted was on disk before the answer."
    servers = f", {told['servers']} servers" * (told["servers"] > 1)
    earlier = f" {told['leftOver']:,} keys of a bench before it as well." * bool(told["leftOver"])
    return f"""\
The store was yours:
{told["url"]} ({told["version"]}{servers}).
{told["removed"]:,} keys below {told["prefix"]}, all of the bench, were removed again.{earlier}
Others waited {told["waitedMs"]} ms for an answer, {told["mostWaitedMs"]} ms at most."""


def _figures(found: Findings) -> str:
    late, each = found.p99_ms, found.bytes_each
    million_mib = each.median * MILLION / 2**20
    return f"""\
accepted   {_rate(found.accept.per_second)}
           {_costs(found.accept, "client", "api", "store")}
           {_saturated(found.accept, found.cores)}
fired      {_rate(found.fire.per_second)}
           {_costs(found.fire, "worker", "store", "client")}
           {_saturated(found.fire, found.cores)}
late       p50 {found.p50_ms.median:.1f} ms, p99 {late.median:.1f} ms \
({late.least:.1f} to {late.most:.1f}), at {found.lateness_rate:.0f} a second
memory     {each.median:,.0f} bytes for each that waits: {million_mib:,.0f} MiB a million
"""


def _meaning(found: Findings) -> str:
    need = found.needed
    nodes = math.ceil(need.store_cores)
    cluster = f" A server has one for its commands: a cluster of {nodes} nodes." * (nodes > 1)
    return f"""\
With a core each an API process accepts {alone(found.accept, "api"):,.0f} a second, and a worker \
fires {alone(found.fire, "worker"):,.0f}.
For {need.rate:,.0f} a second, accepted and fired, at {100 * FULL:.0f} % of each core: \
{_count(need.apis, "API process", "API processes")}, {_count(need.workers, "worker")}, \
{need.store_cores:.2f} cores of the store.{cluster}"""


def as_json(found: Findings, told: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "store": told,
        "rounds": found.rounds,
        "cores": found.cores,
        "noise": found.noise,
        "accept": _carried(found.accept),
        "fire": _carried(found.fire),
        "lateness": {
            "perSecond": found.lateness_rate,
            "p50Ms": found.p50_ms._asdict(),
            "p99Ms": found.p99_ms._asdict(),
        },
        "waitingBytesEach": found.bytes_each._asdict(),
        "millionWaitingBytes": found.bytes_each.median * MILLION,
        "needed": {
            "perSecond": found.needed.rate,
            "apiProcesses": found.needed.apis,
            "workers": found.needed.workers,
            "storeCores": found.needed.store_cores,
        },
    }


def _carried(carried: Carried) -> dict[str, Any]:
    return {
        "perSecond": carried.per_second._asdict(),
        "cpuUsEach": carried.each_us,
        "coreShare": carried.busy,
        "othersCores": carried.others,
        "saturated": carried.saturated,
    }


def _rate(figure: Figure) -> str:
    return f"{figure.median:,.0f} a second ({figure.least:,.0f} to {figure.most:,.0f})"


def _costs(carried: Carried, *names: str) -> str:
    told = [f"{_NAMES[n]} {carried.each_us[n]:.0f} us" for n in names if carried.each_us[n]]
    return "CPU each: " + ", ".join(told)


def _saturated(carried: Carried, cores: int) -> str:
    busiest = max(carried.busy, key=lambda name: carried.busy[name])
    share = f"{_NAMES[busiest]} had {100 * carried.busy[busiest]:.0f} % of a core"
    what = {
        "machine": f"the machine, whose {cores} cores were all in use",
        "waiting": "none, all waited for one another or the disk",
    }
    return f"saturated first: {what.get(carried.saturated, _NAMES[busiest])}; {share}"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
