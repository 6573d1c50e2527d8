"""What the operator's commands share: their settings, and the way to the store. Slow imports are
inside functions: `--help` needs none of them."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from cli.output import fail, log_line, show
from cli.tables import Column, Row, table
from scheduler.errors import OutcomeUnknown, PostdateError, StoreError
from scheduler.runtime.settings import (
    Settings,
    from_environment,
    unknown_variables,
    without_password,
)
from scheduler.texts import visible

if TYPE_CHECKING:
    from scheduler.store import Store

T = TypeVar("T")
_UNKNOWN = (
    "The store failed before all was done and answered: it may be done, or a part of it. Look"
    " before you repeat it."
)


class Context(msgspec.Struct, frozen=True):
    """One command's settings and the way it prints."""

    settings: Settings
    as_json: bool
    runs_on: bool = False  # until it is stopped, so that its JSON is lines of a log

    def show(self, answer: object, text: str) -> None:
        if self.runs_on and isinstance(answer, dict):
            answer = log_line(answer, text)
        show(answer, text, as_json=self.as_json)

    def show_table(
        self, answer: object, columns: Sequence[Column], rows: Sequence[Row], none: str = ""
    ) -> None:
        """`none` is for a table without rows."""
        self.show(answer, table(columns, rows) if rows else none)

    def suggest(self, text: str) -> None:
        """For people: on standard error, so that scripts read the answer alone."""
        if not self.as_json:
            click.echo(visible(text), err=True)


def command(
    *setting_flags: str, runs_on: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a function a command with the common options; it is called with a `Context` first.

    `setting_flags` name further options of the command that are settings. `runs_on`: see `Context`.
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
            import structlog

            from cli.serving.log_setup import set_up_logging

            try:
                given = {name: str(value) for name, value in flags.items() if value is not None}
                settings = from_environment(os.environ, given)
                quiet = options.pop("quiet_store", False)  # the parent has logged the findings
                set_up_logging(settings.log_level, as_json=as_json, quiet_store=quiet)
                if options.get("parent_fd") is None:  # whose parent has said it
                    for sentence in unknown_variables(os.environ):
                        structlog.get_logger().warning(sentence)
                function(Context(settings, as_json, runs_on), *args, **options)
            except PostdateError as error:
                fail(str(error), as_json=as_json, logged=runs_on)

        return wrapped

    return decorate


def locate_store(settings: Settings) -> Settings:
    """Settings with a URL: the given one, or the running data dir's. Raises PostdateError."""
    if settings.redis_url is not None:
        return settings
    from cli.serving.data_dir import DataDir
    from cli.serving.embedded import is_running

    data_dir = DataDir(Path(settings.data_dir))
    if not is_running(data_dir):
        raise PostdateError(
            f"No Postdate is running in {settings.data_dir}: start `postdate up`,"
            " or say where the store is with --redis-url or --data-dir."
        )
    return msgspec.structs.replace(settings, redis_url=data_dir.url)


async def open_store(
    settings: Settings, *, read_only: bool = False, needs_keys: bool = True
) -> Store:
    """`Store.open`, with its options; its errors become a PostdateError that names the store."""
    from scheduler.store import Store

    try:
        return await Store.open(settings, read_only=read_only, needs_keys=needs_keys)
    except StoreError as error:
        raise store_fault(settings, error) from error


def store_fault(settings: Settings, error: StoreError) -> PostdateError:
    sentence = str(error).rstrip(".")
    if isinstance(error, OutcomeUnknown):  # of a question: it was opened, not changed
        sentence = "The store cannot be reached"
    if sentence.endswith("cannot be reached"):
        from postdate.errors import reason_of

        sentence = f"{sentence}: {reason_of(error.__cause__ or error).rstrip('.')}"
    return PostdateError(f"{sentence} ({without_password(settings.redis_url or '')}).")


async def _used(store: Store, use: Callable[[Store], Awaitable[T]]) -> T:
    """What `use` returns. Raises PostdateError that says so if it may have changed something."""
    from scheduler.store.server.writes import one_call, outcome

    with one_call():
        try:
            return await use(store)
        except StoreError as error:
            if isinstance(outcome(error), OutcomeUnknown):
                raise PostdateError(_UNKNOWN) from error
            raise


def with_store(
    settings: Settings,
    use: Callable[[Store], Awaitable[T]],
    *,
    read_only: bool = False,
    needs_keys: bool = True,
) -> T:
    """Opens the store, uses it, closes it. The options are those of `Store.open`."""

    async def run() -> T:
        located = locate_store(settings)
        opened = await open_store(located, read_only=read_only, needs_keys=needs_keys)
        async with aclosing(opened) as store:
            return await _used(store, use)

    return asyncio.run(run())
