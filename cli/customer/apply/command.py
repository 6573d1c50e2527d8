"""`postdate apply`."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import click

from cli.customer.remote import Remote, answered, remote_command, sentence_of, with_hint
from cli.output import NO_ANSWER, fail, show

if TYPE_CHECKING:
    from cli.customer.apply.document import BadFiles
    from cli.customer.apply.plan import Plan, Step
    from cli.customer.apply.wanted import Asked
    from postdate import PostdateError

_CHANGED = 3
_MOST_SHOWN = 50
# A deploy waits while the API starts anew.
_RETRY_FOR_S = 10.0
_SIGNS = {"created": "+", "changed": "~", "removed": "-", "unchanged": " "}
_TO_BE = {"created": "create", "changed": "change", "removed": "remove"}


def _or_schema(function: Callable[..., None]) -> Callable[..., None]:
    """The schema needs neither files nor an API key."""

    @functools.wraps(function)
    def wrapped(*, schema: bool, **options: Any) -> None:
        if schema:
            from cli.customer.apply.schema import file_schema

            click.echo(json.dumps(file_schema(), indent=2, ensure_ascii=False))
            return
        if not options["files"]:
            raise click.UsageError("Give a file with -f.")
        function(**options)

    return wrapped


@click.command(name="apply")
@click.option(
    "-f",
    "--file",
    "files",
    type=click.Path(allow_dash=True),
    multiple=True,
    metavar="FILE",
    help="In YAML or JSON; - is standard input. As often as needed.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be changed, and change nothing.")
@click.option("--prune", is_flag=True, help="Also remove what the files own and no longer name.")
@click.option(
    "--exit-code", is_flag=True, help=f"Exit with {_CHANGED} if there was something to change."
)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of a file, for editors.")
@_or_schema
@remote_command(retry_for_s=_RETRY_FOR_S)
def apply_command(
    remote: Remote, files: tuple[str, ...], dry_run: bool, prune: bool, exit_code: bool
) -> None:
    """Set lanes, recurring schedules and the callback as files say.

    A file that is wrong changes nothing. Settings that are right already are left alone, and so is
    every pause. ${NAME} in a file is a variable of the environment.

    \b
    postdate apply -f postdate.yaml --dry-run
    postdate apply -f postdate.yaml --prune
    """
    from cli.customer.apply.plan import plan_of

    asked = _asked(remote, files)
    if prune and not asked.owns:
        fail("--prune needs `owns` in a file: the names that belong to it", as_json=remote.as_json)
    plan = plan_of(remote.client, asked, prune=prune)
    if not dry_run:
        _do(remote, plan)
    _print(remote, plan, dry_run=dry_run)
    if exit_code and plan.changes:
        sys.exit(_CHANGED)


def _asked(remote: Remote, files: tuple[str, ...]) -> Asked:
    from cli.customer.apply.document import MOST_BYTES, BadFiles, read
    from cli.customer.apply.wanted import asked_of

    documents = []
    try:
        for name in files:
            with click.open_file(name, "rb") as file:
                data = file.read(MOST_BYTES + 1)
            documents.append(read("<stdin>" if name == "-" else name, data, os.environ))
        return asked_of(documents)
    except OSError as error:
        fail(f"{name} cannot be read: {error.strerror}", as_json=remote.as_json)
    except BadFiles as bad:
        _refuse(remote, bad)


def _refuse(remote: Remote, bad: BadFiles) -> NoReturn:
    lines = [
        f"{file}:{line}: {f'{field}: ' if field else ''}{message}"
        for (file, line), field, message in bad.faults[:_MOST_SHOWN]
    ]
    if len(bad.faults) > _MOST_SHOWN:
        lines.append(f"There are {len(bad.faults) - _MOST_SHOWN:,} more faults.")
    details = [
        {"file": each.place.file, "line": each.place.line, "field": each.field}
        | {"message": each.message}
        for each in bad.faults[:_MOST_SHOWN]
    ]
    answer = {**NO_ANSWER, "details": details}
    fail("\n".join(lines), as_json=remote.as_json, answered=answer, placed=True)


def _do(remote: Remote, plan: Plan) -> None:
    """Carries out the steps in order, and replaces each in the plan by its result."""
    from postdate import PostdateError

    for number, step in enumerate(plan.steps):
        if not step.asks:
            continue
        try:
            plan.steps[number] = step.done(remote.client)
        except (PostdateError, KeyboardInterrupt) as error:
            left = sum(each.asks for each in plan.steps[number + 1 :])
            plan.steps = [each for each in plan.steps[:number] if each.asks]
            if plan.steps or remote.as_json:
                _print(remote, plan, dry_run=False)
            said = answered(error) if isinstance(error, PostdateError) else None
            sentence = _stopped(step, left, error, remote.base_url)
            placed = step.place is not None
            fail(sentence, as_json=remote.as_json, answered=said, placed=placed)


def _stopped(step: Step, left: int, error: PostdateError | KeyboardInterrupt, base_url: str) -> str:
    from postdate import PreconditionFailed

    where = "" if step.place is None else f"{step.place.file}:{step.place.line}: "
    if isinstance(error, KeyboardInterrupt):
        said = "Interrupted"
    elif isinstance(error, PreconditionFailed):
        said = "It was changed meanwhile, and nothing of that was overwritten"
    else:
        said = with_hint(sentence_of(error), base_url).rstrip(".")
    is_unknown = isinstance(error, KeyboardInterrupt) or error.maybe_done
    maybe = " It may have been done." if is_unknown else ""
    more = f" {left:,} more not tried." if left else ""
    return f"{where}{step.title}: {said}.{maybe}{more} Run it again to do what is left"


def _print(remote: Remote, plan: Plan, *, dry_run: bool) -> None:
    blocks = [_text_of(step) for step in plan.steps if _is_worth_a_line(step)]
    counts = [
        f"{count:,} {f'to {_TO_BE[action]}' if dry_run and action in _TO_BE else action}"
        for action in _SIGNS
        if (count := sum(step.action == action for step in plan.steps))
    ]
    tail = ["Nothing is changed: this is a dry run."] if dry_run and plan.changes else []
    text = "\n".join([*blocks, f"{', '.join(counts) or 'Nothing to do'}.", *tail])
    answer = {
        "dryRun": dry_run,
        "changed": plan.changes and not dry_run,
        "changes": plan.changes,
        "steps": [_json_of(step) for step in plan.steps],
    }
    show(answer, text, as_json=remote.as_json)


def _is_worth_a_line(step: Step) -> bool:
    return step.action != "unchanged" or bool(step.notes)


def _text_of(step: Step) -> str:
    lines = [f"{_SIGNS[step.action]} {step.title}"]
    for each in step.differences:
        sign = "+" if each.old is None else "-" if each.new is None else "~"
        values = [_value(value) for value in (each.old, each.new) if value is not None]
        lines.append(f"    {sign} {each.field}: {' → '.join(values)}")
    return "\n".join([*lines, *(f"    # {note}" for note in step.notes)])


def _value(value: object) -> str:
    """A text that would not be one line, or none, is quoted: strangers wrote what the API has."""
    is_plain = isinstance(value, str) and value and value.isprintable()
    return str(value) if is_plain else json.dumps(value, ensure_ascii=False)


def _json_of(step: Step) -> dict[str, object]:
    return {
        "action": step.action,
        "kind": step.noun,
        "name": step.name or None,
        "fields": [{"field": f, "old": old, "new": new} for f, old, new in step.differences],
        "notes": list(step.notes),
    }
