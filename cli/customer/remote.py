"""What a customer's commands share: they call the API over HTTP, with an API key."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import click

from cli.output import NO_ANSWER, fail, show
from cli.tables import Column, Row, table

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


# A field of the API in a sentence: at its beginning, by its capital letter, or as what is needed.
# And an argument of the client, with which its sentences begin.
_FIELD = re.compile(
    r"^[A-Za-z]+(?:[.\[][^:]*)?(?=: )|\b[a-z]+(?:[A-Z][a-z0-9]+)+\b"
    r"|(?<=needs )[a-z]+\b|(?<=and )per\b"
)
_NAME = re.compile(r"^[a-z_]+(?:\[[0-9]+\])?(?= )")
_HUMP = re.compile(r"([A-Z])")
# Fields that parameters of commands have another name than, of which a command has some.
_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "targetUrl": ("target", "url"),
    "triggerAt": ("in_", "at"),
    "targetMethod": ("method",),
    "targetHeaders": ("headers",),
    "targetBody": ("body",),
    "targetBodyText": ("text",),
    "targetBodyBase64": ("data", "base64"),
    "callbackUrl": ("callback_url", "callback"),
    "recurringId": ("recurring_id", "which"),
    "recurring_id": ("which",),
    "schedule_id": ("schedule_ids",),
    "scheduleId": ("schedule_id",),
    "ids": ("schedule_ids",),
    "status": ("statuses",),
    "from": ("from_", "since"),
    "pausedUntil": ("until", "for_"),
    "pauseNote": ("note",),
    "calmUntil": ("calm",),
    "name": ("which",),
    # arguments of the client
    "url": ("target",),
    "json": ("body",),
    "trigger_at": ("in_", "at"),
    "paused_until": ("until", "for_"),
}
_IDS = {"rec": "a recurring schedule", "acc": "an account", "key": "an API key"}


class Remote(NamedTuple):
    """One command's client and the way it prints."""

    client: Postdate
    as_json: bool
    base_url: str

    def show(self, answer: object, text: str) -> None:
        """Prints a result of the client: as JSON like the API's, or as text."""
        show(as_api(answer), text, as_json=self.as_json)

    def show_table(
        self, answer: object, columns: Sequence[Column], rows: Sequence[Row], none: str = ""
    ) -> None:
        """The same with a table; `none` is for one without rows."""
        self.show(answer, table(columns, rows) if rows else none)

    def show_page(
        self,
        found: Sequence[Any],
        limit: int,
        columns: Sequence[Column],
        row_of: Callable[[Any], Row],
        none: str,
    ) -> None:
        """A list of at most `limit`, of which one more was asked for: that tells people whether
        there are more."""
        shown = found[:limit]
        self.show_table(shown, columns, [row_of(each) for each in shown], none)
        if len(found) > limit and not self.as_json:
            click.echo(f"There are more: --limit {limit * 5} shows them.", err=True)


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
                said = sentence_of(error, click.get_current_context())
                sentence = with_hint(said, base_url)
                stranger = _as_a_stranger(error, base_url)
                fail(stranger or sentence, as_json=as_json, answered=answered(error))
            except ValueError as error:  # an argument that the client refuses by itself
                context = click.get_current_context()
                fail(
                    _NAME.sub(lambda name: option_of(name[0], context), str(error), count=1),
                    as_json=as_json,
                )

        return wrapped

    return decorate


def sentence_of(error: PostdateError, context: click.Context | None = None) -> str:
    """One sentence with all that is wrong and what may help. With the `context` of a command it
    names the options of that instead of fields of the API."""
    from postdate import ConnectionFailed, InvalidRequest, NotFound

    if isinstance(error, ConnectionFailed):
        return f"{error}; start `postdate up`, or say where Postdate is with --url"
    details = error.details if isinstance(error, InvalidRequest) else ()
    if len(details) > 1 or any(str(error).startswith(f"{each.field}: ") for each in details):
        faults = [f"{each.field}: {each.message.rstrip('.')}" for each in details]
        if context is not None:
            faults = [_FIELD.sub(lambda name: option_of(name[0], context), each) for each in faults]
        return "; ".join(faults)
    if error.request_id is not None and (error.status_code or 0) >= _OUR_FAULT:
        return f"{str(error).rstrip('.')} (request {error.request_id})"
    if isinstance(error, NotFound) and context is not None:
        return f"{str(error).rstrip('.')}{_other_id(context)}"
    return str(error)


def option_of(field: str, context: click.Context) -> str:
    """How a command says a field of the API or an argument of the client: `--header`, `ID`. The
    field itself, if the command does not have it."""
    name = field.partition(".")[0].partition("[")[0]
    names = (*_PARAMETERS.get(name, ()), _HUMP.sub(r"_\1", name).lower())
    found = [each for each in context.command.params if each.name in names]
    found.sort(key=lambda each: context.params.get(each.name or "") in (None, (), False))
    if not found:
        return field
    if isinstance(found[0], click.Argument):
        return found[0].make_metavar(context).strip("[].")
    return max(found[0].opts, key=len)


def _other_id(context: click.Context) -> str:
    """What to do about an id of another kind than the command takes."""
    given = context.params.get("schedule_id") or ""
    kind, _, local = str(given).partition("_")
    if kind == "inv":
        return f"; that is the id of an invocation, and its schedule is sch_{local}"
    if kind in _IDS:
        return f"; that is the id of {_IDS[kind]}, and a schedule's begins with sch_"
    return ""


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
