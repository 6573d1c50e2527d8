"""What a command imports: a customer's need nothing of the server, nor does any help."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from cli.main import COMMANDS
from tests.servers import PostdateProcess, environment, postdate

SERVER = {"litestar", "redis", "hiredis", "uvicorn", "uvloop", "jinja2", "argon2"}
MORE = {"httpx", "rich", "structlog", "asyncio"}

_RUN = """
import json, sys
from cli.main import main
for words in json.loads(sys.argv[1]):
    try:
        main(words, prog_name="postdate")
    except SystemExit as end:
        if end.code:
            raise
known = [name for name, module in sys.modules.items() if module is not None]
print(json.dumps(known), file=sys.stderr)
"""


def imported_by(*arguments: str, **settings: object) -> set[str]:
    """The packages that the process of a command that must succeed has imported by its end."""
    return imported_by_all([" ".join(arguments)], **settings)


def imported_by_all(commands: list[str], **settings: object) -> set[str]:
    """What one process has imported by the end of all of these, which must succeed."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", _RUN, json.dumps([words.split() for words in commands])],
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    return {name.partition(".")[0] for name in json.loads(done.stderr.splitlines()[-1])}


def test_help_imports_nothing_of_the_server() -> None:
    helps = ["--help", "--version", *(f"{name} --help" for name in COMMANDS), "key create --help"]
    assert not imported_by_all(helps) & SERVER


def test_a_customers_help_imports_nothing_else_either() -> None:
    helps = ["schedule --help", "logs --help", "cancel --help"]
    assert not imported_by_all(helps) & (SERVER | MORE | {"msgspec"})


@pytest.mark.parametrize("words", ["logs", "stats", "schedule http://127.0.0.1:9999/ --in 1d"])
def test_a_customers_command_imports_only_the_client(
    postdate_up: PostdateProcess, words: str
) -> None:
    imported = imported_by(*words.split(), url=postdate_up.base_url, api_key=postdate_up.api_key)
    assert not imported & (SERVER | {"rich", "structlog", "msgspec"})
    assert "httpx" in imported  # so that this would notice


def test_the_list_is_whole_in_order_and_cuts_no_sentence() -> None:
    listed = postdate("--help").stdout.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in listed] == list(COMMANDS)
    assert [line for line in listed if line.endswith("...")] == []


def test_a_command_that_is_none_is_a_usage_error() -> None:
    done = postdate("shedule")
    assert (done.returncode, done.stdout) == (2, "")
    assert "No such command 'shedule'" in done.stderr
