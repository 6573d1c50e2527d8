"""The commands of `postdate`, run in this process: to start one takes a second."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, contextmanager
from secrets import token_hex
from typing import Any
from unittest.mock import patch

import structlog
from click.testing import CliRunner

from cli.main import main
from tests.support.processes import PostdateProcess, settings_environment
from tests.support.waiting import DEADLINE_S


def postdate(
    *arguments: str, stdin: str = "", **settings: object
) -> subprocess.CompletedProcess[str]:
    """Runs one command to its end, as `postdate_process` does, but not as a process of its own.
    It finds `stdin` on its standard input.

    For commands only that do not serve: those want the signals of a process. What a command
    raises instead of telling it is raised here.
    """
    # In a thread, as the event loop of a test may run in this one.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_run, arguments, stdin, settings).result(DEADLINE_S * 2)


def postdate_json(*arguments: str, **settings: object) -> Any:
    """What a command that must succeed prints with --json."""
    done = postdate(*arguments, "--json", **settings)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def own_account(up: PostdateProcess, credits: int) -> dict[str, str]:
    """Settings of a customer's commands: of a new account with the key `deploys`."""
    name, where = f"customer {token_hex(4)}", {"redis_url": up.redis_url}
    create = ("account", "create", name, "--credits", str(credits), "--plan", "unlimited")
    postdate_json(*create, **where)
    key = postdate_json("key", "create", name, "--name", "deploys", **where)["key"]
    return {"url": up.base_url, "api_key": key}


def _run(
    arguments: tuple[str, ...], text: str, settings: dict[str, object]
) -> subprocess.CompletedProcess[str]:
    inherited = {name: None for name in os.environ if name.startswith("POSTDATE_")}
    runner = CliRunner(env={**inherited, **settings_environment(settings)}, catch_exceptions=False)
    with chdir(tempfile.gettempdir()), _logging_as_it_was():
        done = runner.invoke(main, arguments, prog_name="postdate", input=text)
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


@contextmanager
def _logging_as_it_was() -> Iterator[None]:
    """A command sets up the log of its process; afterwards it is the tests' again."""
    root, before, configure = logging.getLogger(), structlog.get_config(), structlog.configure
    handlers, level = root.handlers[:], root.level

    def configure_for_now(**options: Any) -> None:
        # A logger that was cached would keep this configuration for good.
        configure(**{**options, "cache_logger_on_first_use": False})

    try:
        with patch("structlog.configure", configure_for_now):
            yield
    finally:
        configure(**before)
        root.handlers[:] = handlers
        root.setLevel(level)
