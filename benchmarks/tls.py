"""What does TLS add to a fire: on a connection that is kept alive, and on a new one for each?

    python -m benchmarks.tls [--count 10000] [--new 2000] [--rounds 3]

One worker, and four targets of our own: plain and over TLS (TLS 1.3, ECDSA P-256, a certificate of
a test's authority), each once kept alive and once closing after its answer. Rounds of
`benchmarks.fire`, in turn.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import tempfile
from pathlib import Path

import trustme
import uvloop

from benchmarks.fire import Measured, line, one_round
from benchmarks.support import stage
from benchmarks.support.rounds import warn_of_noise

_HOST = "127.0.0.1"


def main() -> None:
    options = argparse.ArgumentParser(description="Fires over TLS and without.")
    options.add_argument("--count", type=int, default=10_000, help="fires a round, kept alive")
    options.add_argument("--new", type=int, default=2_000, help="fires a round, new connections")
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    found: dict[str, list[Measured]] = {}
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pd-bench-")))
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(home / "authority.pem"))
        authority.issue_cert(_HOST).private_key_and_cert_chain_pem.write_to_path(
            str(home / "target.pem")
        )
        os.environ["SSL_CERT_FILE"] = str(home / "authority.pem")
        server = stack.enter_context(stage.valkey())
        worker = stack.enter_context(stage.worker(server.url))
        tls = ("--certificate", str(home / "target.pem"))
        ways = {
            "plain, kept alive": (chosen.count, ()),
            "TLS, kept alive": (chosen.count, tls),
            "plain, new": (chosen.new, ("--close",)),
            "TLS, new": (chosen.new, (*tls, "--close")),
        }
        urls = {
            way: stack.enter_context(stage.own_target(*more)).url for way, (_, more) in ways.items()
        }
        for number in range(chosen.rounds):
            for way, (count, _) in ways.items():
                name = f"{way}-{number}"
                each = uvloop.run(one_round(urls[way], count, name, server, [worker]))
                found.setdefault(way, []).append(each)
                print(line(f"{way:18}", each), flush=True)
    print("medians")
    for way, rounds in found.items():
        print(line(f"{way:18}", Measured(*map(statistics.median, zip(*rounds, strict=True)))))
        warn_of_noise([each._asdict() for each in rounds], way)


if __name__ == "__main__":
    main()
