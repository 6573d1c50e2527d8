"""What all commands share: where the store is, how to print, how to fail."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
import msgspec

from cli.data_dir import DataDir
from cli.embedded import is_running
from cli.logs import set_up_logging
from scheduler.errors import PostdateError, StoreError
from scheduler.settings import Settings, from_environment, without_password
from scheduler.store import Store

T = TypeVar("T")


class Context(msgspec.Struct, frozen=True):
    """One command's settings and the way it prints."""

    settings: Settings
    as_json: bool

    def show(self, answer: object, text: str) -> None:
        """Prints the answer, as `show` does."""
        show(answer, text, as_json=self.as_json)


def command(*setting_flags: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a function a command with the common options; it is called with a `Context` first.

    `setting_flags` are the names of further options of the command that stand for settings.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")
        @click.option(
            "--redis-url",
            metavar="URL",
            help="The store: redis://, rediss://, unix://, redis+cluster:// or redis+sentinel://."
            " [env: POSTDATE_REDIS_URL]",
        )
        @click.option(
            "--data-dir",
            metavar="DIR",
            help="Without a URL: the directory of the embedded store."
            " [env: POSTDATE_DATA_DIR; default: .postdate]",
        )
        @functools.wraps(function)
        def wrapped(
            *args: object,
            as_json: bool,
            redis_url: str | None,
            data_dir: str | None,
            **options: Any,
        ) -> None:
            flags = {"redis_url": redis_url, "data_dir": data_dir}
            flags |= {name: options.pop(name) for name in setting_flags}
            try:
                given = {name: str(value) for name, value in flags.items() if value is not None}
                settings = from_environment(os.environ, given)
                set_up_logging(settings.log_level, as_json=as_json)
                function(Context(settings, as_json), *args, **options)
            except PostdateError as error:
                fail(str(error), as_json=as_json)

        return wrapped

    return decorate


def show(answer: object, text: str, *, as_json: bool) -> None:
    """Prints an answer: for machines as JSON, for people as text."""
    click.echo(json.dumps(answer, ensure_ascii=False) if as_json else text)


def fail(sentence: str, *, as_json: bool) -> NoReturn:
    """One sentence on stderr, exit status 1."""
    sentence = sentence.rstrip(".") + "."
    click.echo(json.dumps({"error": sentence}) if as_json else sentence, err=True)
    sys.exit(1)


def locate_store(settings: Settings) -> Settings:
    """Settings that name a store: the URL given, or the embedded one of the data dir if it runs.

    Raises PostdateError if there is neither.
    """
    if settings.redis_url is not None:
        return settings
    data_dir = DataDir(Path(settings.data_dir))
    if not is_running(data_dir):
        raise PostdateError(
            f"No Postdate is running in {settings.data_dir}: start `postdate up`,"
            " or say where the store is with --redis-url or --data-dir."
        )
    return msgspec.structs.replace(settings, redis_url=data_dir.url)


async def open_store(settings: Settings) -> Store:
    """The store, or a PostdateError that says which one it is and what is wrong with it."""
    try:
        return await Store.open(settings)
    except StoreError as error:
        where = without_password(settings.redis_url or "")
        raise PostdateError(f"{str(error).rstrip('.')} ({where}).") from error


def with_store(settings: Settings, use: Callable[[Store], Awaitable[T]]) -> T:
    """Opens the store, uses it, closes it."""

    async def run() -> T:
        store = await open_store(locate_store(settings))
        try:
            return await use(store)
        finally:
            await store.aclose()

    return asyncio.run(run())
