"""What a customer's commands share: they call the API over HTTP, with an API key."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import click

from cli.output import NO_ANSWER, fail, show

if TYPE_CHECKING:
    from postdate import Postdate, PostdateError

# People who wait at a terminal prefer an error.
_RETRY_FOR_S = 3.0

_OUR_FAULT = 500  # and above
_NOT_ALLOWED = "Destination not allowed"

# How the client begins where an answer has not the shape of an answer of Postdate.
_NOT_OURS = ("The server answered ", "The answer does not come from Postdate")

_NO_KEY = (
    "There is no API key: set POSTDATE_API_KEY or give --api-key."
    " `postdate key create default --name mine` makes one where Postdate runs"
)


class Remote(NamedTuple):
    """One command's client and the way it prints."""

    client: Postdate
    as_json: bool
    base_url: str

    def show(self, answer: object, text: str) -> None:
        """Prints a result of the client: as JSON like the API's, or as text."""
        show(as_api(answer), text, as_json=self.as_json)

    def show_many(
        self,
        done: Sequence[Any],
        text_of: Callable[[Any], str],
        *,
        id_name: str,
        was: str,
        none: str,
    ) -> None:
        """Prints a line for each result or error, and exits with status 1 if there is an error.
        `was` is what became of the others: cancelled, replayed. `none` is for no results."""
        from postdate import PostdateError

        answers: list[object] = []
        lines, failed = [], 0
        for each in done:
            if isinstance(each, PostdateError):
                failed += 1
                code, text = each.status_code, str(each)
                said = {"code": code, "error": text, "reason": each.reason}
                answers.append({id_name: each.schedule_id, **said})
            else:
                answers.append(each)
                text = text_of(each)
            lines.append(f"{each.schedule_id}  {text}")
        self.show(answers, "\n".join(lines) or none)
        if failed:
            fail(f"{failed:,} of {len(done):,} could not be {was}", as_json=self.as_json)


def remote_command(
    *, retry_for_s: float = _RETRY_FOR_S
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a function a command with the common options; it is called with a `Remote` first.
    `retry_for_s` is how long it waits for errors that may pass."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
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
            # httpx would import its own command line and rich, which takes half as long again.
            sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # as import documents
            # The client's imports take a tenth of a second, which no other command has to spend.
            from postdate import Postdate, PostdateError

            if not api_key:
                fail(_NO_KEY, as_json=as_json)
            try:
                with Postdate(base_url, api_key.strip(), retry_for=retry_for_s) as client:
                    function(Remote(client, as_json, base_url), *args, **options)
            except PostdateError as error:
                sentence = with_hint(sentence_of(error), base_url)
                stranger = _as_a_stranger(error, base_url)
                fail(stranger or sentence, as_json=as_json, answered=answered(error))
            except ValueError as error:  # an argument that the client refuses by itself
                fail(str(error), as_json=as_json)

        return wrapped

    return decorate


def sentence_of(error: PostdateError) -> str:
    """One sentence with all that is wrong and what may help."""
    from postdate import ConnectionFailed, InvalidRequest

    if isinstance(error, ConnectionFailed):
        return f"{error}; start `postdate up`, or say where Postdate is with --url"
    if isinstance(error, InvalidRequest) and len(error.details) > 1:
        return "; ".join(f"{each.field}: {each.message.rstrip('.')}" for each in error.details)
    if error.request_id is not None and (error.status_code or 0) >= _OUR_FAULT:
        return f"{str(error).rstrip('.')} (request {error.request_id})"
    return str(error)


def error_json(sentence: str, error: PostdateError | None) -> dict[str, object]:
    """The error of one of many, in the shape of `fail`; `error` is None if nothing was sent."""
    return {"error": f"{sentence.rstrip('.')}.", **(answered(error) if error else NO_ANSWER)}


def answered(error: PostdateError) -> dict[str, object]:
    details = getattr(error, "details", ())
    return {
        "status": error.status_code,
        "reason": error.reason,
        "requestId": error.request_id,
        "details": [{"field": each.field, "message": each.message} for each in details],
    }


def with_hint(sentence: str, base_url: str) -> str:
    """Names the setting: the user of a local Postdate can most likely change it."""
    from scheduler.target.destinations import is_loopback  # which imports msgspec

    host = urlsplit(base_url).hostname or ""
    if _NOT_ALLOWED not in sentence or not is_loopback(host):
        return sentence
    return (
        f"{sentence.rstrip('.')}; POSTDATE_ALLOW_TARGETS, where this Postdate is started, names"
        " what it may reach besides public addresses"
    )


def _as_a_stranger(error: PostdateError, base_url: str) -> str | None:
    """A sentence if another program answered; a proxy without its Postdate is not meant."""
    from postdate import Unavailable

    text = str(error)
    if isinstance(error, Unavailable) or not text.startswith(_NOT_OURS):
        return None
    status = f" ({text.removeprefix(_NOT_OURS[0])})" if error.status_code else ""
    return f"{base_url} answers, but not as Postdate does{status}; say where Postdate is with --url"


def as_api(result: object) -> object:
    """A result of the client with the names and the format of the API."""
    from postdate.results import camel

    if is_dataclass(result):
        names = [
            each.name for each in sorted(fields(result), key=functools.partial(_place, result))
        ]
        return {camel(name): as_api(getattr(result, name)) for name in names}
    if isinstance(result, datetime):
        return when(result)
    if isinstance(result, list | tuple):
        return [as_api(each) for each in result]
    return result


def _place(result: object, field: Field[Any]) -> int:
    """Sorts a result's own required fields first, then those of its request, then its others."""
    if field.name not in type(result).__annotations__:
        return 1
    return 0 if field.default is MISSING else 2


def when(moment: datetime) -> str:
    """`2026-11-20T08:00:00.000Z`."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
