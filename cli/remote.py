"""What the commands of a customer share: they speak to a Postdate over HTTP, with an API key."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from cli.output import fail, show
from cli.reasons import reason_of

if TYPE_CHECKING:
    from postdate import Postdate, PostdateError

# For people: whoever waits at a terminal would rather be told.
_RETRY_FOR_S = 3.0

# How the client begins where an answer has not the shape of an answer of Postdate.
_NOT_OURS = ("The server answered ", "The answer is none of Postdate's")

_NO_KEY = (
    "There is no API key: set POSTDATE_API_KEY or give --api-key."
    " `postdate key create default --name mine` makes one where Postdate runs"
)


class Remote(NamedTuple):
    """One command's client and the way it prints."""

    client: Postdate
    as_json: bool

    def show(self, answer: object, text: str) -> None:
        """Prints a result of the client: for machines as the API has it, for people as text."""
        show(as_api(answer), text, as_json=self.as_json)


def remote_command(function: Callable[..., None]) -> Callable[..., None]:
    """Makes a function a command with the common options; it is called with a `Remote` first."""

    @click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")
    @click.option(
        "--url",
        "base_url",
        metavar="URL",
        envvar="POSTDATE_URL",
        default="http://127.0.0.1:8000",
        help="Where Postdate is. [env: POSTDATE_URL; default: http://127.0.0.1:8000]",
    )
    @click.option(
        "--api-key",
        metavar="KEY",
        envvar="POSTDATE_API_KEY",
        help="Whose schedules. [env: POSTDATE_API_KEY]",
    )
    @functools.wraps(function)
    def wrapped(
        *args: object, as_json: bool, base_url: str, api_key: str | None, **options: Any
    ) -> None:
        _leave_out_its_command_line()
        # The client's imports take a tenth of a second, which no other command has to spend.
        from postdate import Postdate, PostdateError

        if not api_key:
            fail(_NO_KEY, as_json=as_json)
        try:
            with Postdate(base_url, api_key.strip(), retry_for=_RETRY_FOR_S) as client:
                function(Remote(client, as_json), *args, **options)
        except PostdateError as error:
            fail(_as_a_stranger(error, base_url) or sentence_of(error), as_json=as_json)
        except ValueError as error:  # an argument that the client refuses by itself
            fail(str(error), as_json=as_json)

    return wrapped


def _leave_out_its_command_line() -> None:
    """httpx imports a command line of its own, where it can, and rich with it; it gets along
    without, and so do we, a third faster."""
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # as import documents it


def sentence_of(error: PostdateError) -> str:
    """One sentence, which names all that is wrong and says what may help."""
    from postdate import ConnectionFailed, InvalidRequest

    if isinstance(error, ConnectionFailed):
        what, _, why = str(error).partition(": ")
        why = reason_of(error) or why
        return f"{what}: {why}; start `postdate up`, or say where Postdate is with --url"
    if isinstance(error, InvalidRequest) and len(error.details) > 1:
        return "; ".join(f"{each.field}: {each.message.rstrip('.')}" for each in error.details)
    return str(error)


def _as_a_stranger(error: PostdateError, base_url: str) -> str | None:
    """A sentence if it was no Postdate that answered; a proxy that says that there is none behind
    it is not meant."""
    from postdate import Unavailable

    text = str(error)
    if isinstance(error, Unavailable) or not text.startswith(_NOT_OURS):
        return None
    told = f" ({text.removeprefix(_NOT_OURS[0])})" if error.status_code else ""
    return f"{base_url} answers, but not as Postdate does{told}; say where Postdate is with --url"


def as_api(result: object) -> object:
    """A result of the client in the names and the spelling of the API."""
    from postdate.results import camel

    if is_dataclass(result):
        return {camel(each.name): as_api(getattr(result, each.name)) for each in fields(result)}
    if isinstance(result, datetime):
        return when(result)
    if isinstance(result, list | tuple):
        return [as_api(each) for each in result]
    return result


def when(moment: datetime) -> str:
    """`2026-11-20T08:00:00.000Z`."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
