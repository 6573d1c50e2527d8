"""How many requests are stored a second over HTTP, beside a native engine in process?

    python -m benchmarks.peers.stored [--rounds 5] [--batches 1] [--quick]

Postdate, loaded one by one by wrk as in `benchmarks.accept`, beside ChasquiMQ's `add_at` in a
Python process with 64 under way; Postdate's batches of 1,000 beside its `add_in_bulk` of as many.
The same request with a URL each, due in a month; a fresh Valkey that has every write on disk
before it answers; no worker. The two take turns, A B A B. A ratio is the median of each round's.
`--batches 2` has two bulk calls under way at a time, of either, from one process.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.peers import measure, report
from benchmarks.peers.__main__ import prepared
from benchmarks.peers.systems import Added, Place, Postdate
from benchmarks.support.payload import BODY, HEADERS
from benchmarks.support.rounds import warn_of_noise

_CONNECTIONS = 128
_A_SECOND = 5_000  # how many are asked for in each second that wrk runs
_FULL = measure.FULL._replace(singles=20_000, bulk=60_000)
_QUICK = measure.QUICK._replace(singles=10_000)
_FIGURES = {"single_per_second": "one by one", "bulk_per_second": "in bulk"}
_LUA = """
local number = 0
function request()
  number = number + 1
  return {before} .. string.format("%08d", number) .. {after}
end
"""


class Loaded(Postdate):
    """Postdate, whose single requests come from wrk if it is installed."""

    def add(self, place: Place, url: str, **what: int | bool) -> Added:
        """wrk runs for whole seconds: it stores more or fewer than `count`. The few that warm up
        come from the client, which waits until the API is up."""
        seconds = what["count"] // _A_SECOND
        if what.get("bulk") or not seconds or shutil.which("wrk") is None:
            return super().add(place, url, **what)
        with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
            script.write(_script(place, url, what["due_ms"]))
            script.flush()
            options = ["-t1", f"-c{_CONNECTIONS}", f"-d{seconds}", "-s", script.name]
            done = subprocess.run(
                ["wrk", *options, place.more["api"]], capture_output=True, text=True, check=True
            )
        said = re.search(r"(\d+) requests in ([\d.]+)s", done.stdout)
        if said is None or said[1] == "0" or "Non-2xx" in done.stdout:
            raise SystemExit(
                f"wrk stored nothing, or was refused; is the machine busy? {done.stdout}"
            )
        return Added(int(said[1]), float(said[2]))


def _script(place: Place, url: str, due_ms: int) -> str:
    """The whole request in two pieces, between which its number stands."""
    due = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(due_ms // 1000))
    schedule = {
        "targetUrl": f"{url}NUMBERED",
        "triggerAt": due,
        "targetHeaders": {**HEADERS, "Content-Type": "application/json"},
        "targetBody": json.loads(BODY),
    }
    body = json.dumps(schedule)
    head = (
        f"POST /schedule HTTP/1.1\r\nHost: {place.more['api'].removeprefix('http://')}\r\n"
        f"x-api-key: {place.more['key']}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    before, after = (head + body).split("NUMBERED")
    return _LUA.format(before=json.dumps(before), after=json.dumps(after))


def ratios(ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]], key: str) -> float:
    """The median of what each round says."""
    return statistics.median(a[key] / b[key] for a, b in zip(ours, theirs, strict=True))


def main() -> None:
    options = argparse.ArgumentParser(description="Measures how fast requests are stored.")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--batches", type=int, default=1, help="bulk calls under way")
    options.add_argument("--quick", action="store_true", help="one short round")
    chosen = options.parse_args()
    size, rounds = (_QUICK, 1) if chosen.quick else (_FULL, chosen.rounds)
    ours = Loaded("postdate", "Postdate", (), "", has_bulk=True)
    ours.prepare()
    systems = [ours, *prepared(["chasquimq"])]
    for system in systems:
        system.batches = chosen.batches
    found: dict[str, list[dict[str, Any]]] = {system.title: [] for system in systems}
    for number in range(rounds):
        for system in systems:
            found[system.title].append(measure.enqueue(system, size))
            said = report.line(system.title, found[system.title][-1])
            print(f"round {number + 1}  {said}", flush=True)
    for title, measured in found.items():
        warn_of_noise([{_FIGURES[k]: each[k] for k in _FIGURES} for each in measured], title)
    for key, words in _FIGURES.items():
        medians = {t: statistics.median(each[key] for each in m) for t, m in found.items()}
        said = ", ".join(f"{title} {median:,.0f}/s" for title, median in medians.items())
        print(f"{words:11}{said}, ratio {ratios(*found.values(), key):.2f}")


if __name__ == "__main__":
    main()
