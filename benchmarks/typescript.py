"""How many schedules a second the TypeScript client creates, against undici's fetch doing the same.

    python -m benchmarks.typescript [--creates 2000] [--rounds 5] [--concurrent 100]

Starts a Valkey of its own (every write on disk before it is answered) and one API process, and has
Node.js measure, in turn and with so many callers at once: undici's bare fetch, the client, and its
Buffer, that one also with all of its callers at once. Needs npm. The ratios are what to compare
between machines and hours.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
from pathlib import Path

from benchmarks.client import key_of_new_account
from benchmarks.support import stage
from benchmarks.support.payload import HEADERS

_ROOT = Path(__file__).parents[1]
_PROGRAM = Path(__file__).with_suffix(".mjs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--creates", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--concurrent", type=int, default=100)
    options = parser.parse_args()
    subprocess.run(["make", "typescript"], cwd=_ROOT, check=True)
    with stage.valkey() as store, stage.api(store.url) as api:
        key = asyncio.run(key_of_new_account(store.url))
        job = {**vars(options), "url": api.url, "apiKey": key, "targetHeaders": HEADERS}
        subprocess.run(["node", _PROGRAM, json.dumps(job)], check=True)


if __name__ == "__main__":
    main()
