"""What a command imports: a customer's need nothing of the server, nor does any help."""

from __future__ import annotations

import json
import subprocess
import sys

from cli.main import COMMANDS
from tests.support.servers import PostdateProcess, environment

SERVER = {"litestar", "redis", "hiredis", "uvicorn", "uvloop", "jinja2", "argon2"}

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


def imported_by(*commands: str, **settings: object) -> set[str]:
    """The packages that one process has imported by the end of these, which must succeed."""
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


def test_help_imports_nothing_of_the_server_and_a_customers_nothing_else_either() -> None:
    helps = ["--help", "--version", *(f"{name} --help" for name in COMMANDS), "key create --help"]
    assert not imported_by(*helps) & SERVER
    customers = imported_by("schedule --help", "logs --help", "cancel --help")
    assert not customers & (SERVER | {"httpx", "rich", "structlog", "asyncio", "msgspec"})


def test_a_customers_command_imports_only_the_client(postdate_up: PostdateProcess) -> None:
    commands = ("logs", "stats", "schedule http://127.0.0.1:9999/ --in 1d")
    imported = imported_by(*commands, url=postdate_up.base_url, api_key=postdate_up.api_key)
    assert not imported & (SERVER | {"rich", "structlog", "msgspec"})
    assert "httpx" in imported  # so that this would notice
