"""What does somebody who scrapes a worker's metrics each second cost at full rate?

    python -m benchmarks.scrape [--count 20000] [--pairs 5]

Rounds as of `benchmarks.fire`, in turns without a scraper and with one.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import threading
import time
import urllib.request

import uvloop

from benchmarks.fire import Measured, line, one_round
from benchmarks.support import stage
from benchmarks.support.rounds import warn_of_noise

_PORT = 29464


class Scraper(threading.Thread):
    """Scrapes each second while `on` is set."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.on = threading.Event()
        self.took_s: list[float] = []

    def run(self) -> None:
        while self.on.wait():
            began_s = time.perf_counter()
            with urllib.request.urlopen(f"http://127.0.0.1:{_PORT}/metrics") as answer:
                answer.read()
            self.took_s.append(time.perf_counter() - began_s)
            time.sleep(1)


def main() -> None:
    options = argparse.ArgumentParser(description="Fires with a scraper and without.")
    options.add_argument("--count", type=int, default=20_000)
    options.add_argument("--pairs", type=int, default=5)
    chosen = options.parse_args()
    found: dict[str, list[Measured]] = {"alone": [], "scraped": []}
    scraper = Scraper()
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(stage.valkey())
        url = stack.enter_context(stage.target()).url
        worker = stack.enter_context(stage.worker(server.url, metrics_port=_PORT))
        scraper.start()
        for number in range(chosen.pairs):
            for name, rounds in found.items():
                (scraper.on.set if name == "scraped" else scraper.on.clear)()
                asked = one_round(url, chosen.count, f"{name}-{number}", server, [worker])
                rounds.append(uvloop.run(asked))
        scraper.on.clear()
    for name, rounds in found.items():
        print(line(name, Measured(*map(statistics.median, zip(*rounds, strict=True)))))
        warn_of_noise([each._asdict() for each in rounds], name)
    print(f"{len(scraper.took_s)} scrapes, {1000 * statistics.median(scraper.took_s):.1f} ms each")


if __name__ == "__main__":
    main()
