"""Shows that an installed Postdate works: `up`, a target, and a request that arrives there.

    python -m ops.installed COMMAND...

COMMAND is how `postdate` is called: its path, or a prefix that enters a container.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

_SECONDS = 300


class Running(NamedTuple):
    """What clients need, and the target's output: a line of JSON for each request."""

    environ: Mapping[str, str]  # with POSTDATE_URL and POSTDATE_API_KEY
    target_url: str
    arrivals: IO[str]


@contextmanager
def running(
    postdate: Sequence[str | Path], home: Path, environ: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """Everything, with its store in `home`; ends it in order. The OS chooses all ports."""
    plain = {name: text for name, text in os.environ.items() if not name.startswith("POSTDATE_")}
    environ = {"POSTDATE_METRICS_PORT": "0", **(plain if environ is None else environ)}
    up = (*postdate, "up", "--json", "--port", "0")
    listen = (*postdate, "listen", "--json", "--port", "0")
    # A data dir in the environment is the image's.
    data = () if "POSTDATE_DATA_DIR" in environ else ("--data-dir", home / "data")
    with serving((*up, *data), home, environ) as started, serving(listen, home, environ) as target:
        said = until("ready", started)
        client = {**environ, "POSTDATE_URL": said["ready"], "POSTDATE_API_KEY": said["apiKey"]}
        yield Running(client, until("listening", target)["listening"], target)


def request_seen(postdate: Sequence[str | Path], running: Running, home: Path) -> None:
    """The command line schedules one. Raises SystemExit if the target sees none."""
    words = ("schedule", f"{running.target_url}/seen", "--in", "0.2", "--body", '{"from": "ops"}')
    subprocess.run(
        [*postdate, *words], cwd=home, env=running.environ, stdout=subprocess.DEVNULL, check=True
    )
    arrived(running, "/seen")


def arrived(running: Running, path: str) -> None:
    """The next request, which must be to that path, and not early."""
    arrival = until("path", running.arrivals)
    if arrival["path"] != path or not 0 <= arrival["latenessMs"] < _SECONDS * 1000:
        raise SystemExit(f"This came to the target: {arrival}")


def until(name: str, lines: IO[str]) -> dict[str, Any]:
    """All that lines of JSON say until one has `name`."""
    said: dict[str, Any] = {}
    for line in lines:
        said |= json.loads(line)
        if name in said:
            return said
    raise SystemExit(f"The process ended without {name!r}; it said {said}.")


@contextmanager
def serving(
    command: Sequence[str | Path], home: Path, environ: Mapping[str, str]
) -> Iterator[IO[str]]:
    """Its output. It lives for five minutes at most, and must end with status 0 when asked to."""
    with subprocess.Popen(
        command,
        cwd=home,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        overdue = threading.Timer(_SECONDS, os.killpg, (process.pid, signal.SIGKILL))
        overdue.start()
        try:
            yield process.stdout
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)  # `unshare` does not pass it on
            process.communicate()
            overdue.cancel()
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {process.returncode}.")


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as home, running(sys.argv[1:], Path(home)) as here:
        request_seen(sys.argv[1:], here, Path(home))
    print("A request was scheduled, and the target saw it.")
