"""`postdate cancel` and `replay`: of schedules by their ids, or of all that match."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from cli import parameters
from cli.customer.remote import Remote, answered, remote_command, sentence_of, with_hint
from cli.output import Progress, fail
from scheduler.filters import FILTERS
from scheduler.texts import visible

if TYPE_CHECKING:
    from postdate import Cancelled, PostdateError

_COUNTED = 1000
# So many results are printed one by one, and so many refusals in words.
_FEW, _SHOWN_REFUSALS = 20, 10


class Many(NamedTuple):
    """An act on many schedules, in words: "Cancelling", "cancelled". `question` is asked before all
    that match, and `none` is for none. `text_of` says what became of one, `end_of` under which word
    it is counted."""

    doing: str
    was: str
    question: str
    none: str
    text_of: Callable[[Any], str]
    end_of: Callable[[Any], str]
    id_name: str = "scheduleId"


class Counted(NamedTuple):
    """How many match, or `more` than that. `left`: so many are left out, as the next occurrences of
    recurring schedules, of which none was attempted."""

    number: int
    more: bool
    left: int

    def __str__(self) -> str:
        return f"{'more than ' * self.more}{self.number:,}"


# Without ids, one of these (or --failed) must be given.
CHOOSING = ("url", "lane", "reference", "label", "recurring_id")
FLAGS = ", ".join(row.flag for row in FILTERS)
ALONE = "A period or a limit alone is not enough."


def choosing_options(from_help: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        for option in (
            click.option("--yes", is_flag=True, help="Do not ask before all that match."),
            click.option("--limit", type=parameters.Whole(min=1), help="At most so many."),
            parameters.filter_options(from_help),
        ):
            function = option(function)
        return function

    return decorate


@click.command(name="cancel")
@click.argument("schedule_ids", metavar="[ID...]", nargs=-1)
@click.option(
    "--held",
    is_flag=True,
    default=None,
    help="Only due schedules that something keeps from starting.",
)
@choosing_options(" Only those due from then on.")
@remote_command()
def cancel_command(
    remote: Remote,
    schedule_ids: tuple[str, ...],
    limit: int | None,
    yes: bool,
    **chosen: Any,
) -> None:
    """Cancel waiting schedules, and get their credits back.

    Give ids, or options for all that match. A schedule that was attempted already is stopped: it
    ends as failed, and no credit comes back.

    \b
    postdate cancel sch_01m7td70g0fw3s9s2m2v2v2v2v
    postdate cancel --reference 'order-17-*'
    postdate cancel --lane customer-17
    postdate cancel --target https://example.com/hook --from 2026-12-24
    """
    matching = any(chosen[name] is not None for name in (*CHOOSING, "held"))
    if is_unclear(schedule_ids, limit, chosen, matching=matching):
        raise click.UsageError(f"Give ids, or --held, {FLAGS}, --limit. {ALONE}")
    if len(schedule_ids) == 1:
        cancelled = remote.client.cancel(schedule_ids[0])
        text = f"{cancelled.schedule_id}  {cancelled.message}"
        remote.show(cancelled, f"{text}  {cancelled.credits_remaining:,} credits")
        return
    cancel = partial(remote.client.cancel_many, schedule_ids or None, limit=limit, **chosen)
    asked = None
    if not schedule_ids and not yes:
        asked = counted(remote, limit, status="scheduled", **chosen)
    total = len(schedule_ids) or limit or _waiting(remote, chosen)
    carry_out(remote, _CANCEL, cancel, asked, total)


@click.command(name="replay")
@click.argument("schedule_ids", metavar="[ID...]", nargs=-1)
@click.option("--failed", is_flag=True, help="All that failed and were not replayed yet.")
@click.option(
    "--since", type=parameters.duration, help="Only those that failed in the last 1h, 2d."
)
@choosing_options(" Only those that failed from then on.")
@click.option("--idempotency-key", metavar="KEY", help="Repeating with it replays nothing twice.")
@remote_command()
def replay_command(
    remote: Remote,
    schedule_ids: tuple[str, ...],
    failed: bool,
    since: timedelta | None,
    limit: int | None,
    yes: bool,
    idempotency_key: str | None,
    **chosen: Any,
) -> None:
    """Replay schedules that have ended.

    Give ids, or options for all that failed and match, the oldest first. Each replay is a new
    schedule with the same request, due now, for one credit.

    \b
    postdate replay sch_01m7td70g0fw3s9s2m2v2v2v2v
    postdate replay --failed --since 1h
    """
    begin_since(chosen, since)
    matching = failed or any(chosen[name] is not None for name in CHOOSING)
    if is_unclear(schedule_ids, limit, chosen, matching=matching):
        raise click.UsageError(f"Give ids, or --failed, --since, {FLAGS}, --limit. {ALONE}")
    replay = partial(
        remote.client.replay_many,
        schedule_ids or None,
        limit=limit,
        idempotency_key=idempotency_key,
        **chosen,
    )
    asked = None
    if not schedule_ids and not yes:
        asked = counted(remote, limit, status="failed", **chosen)
    carry_out(remote, _REPLAY, replay, asked, len(schedule_ids) or limit)


def _waiting(remote: Remote, chosen: dict[str, Any]) -> int | None:
    """For the bar: how many wait in the lane, if nothing else is chosen by."""
    is_shown = not remote.as_json and sys.stderr.isatty()
    if not is_shown or [name for name, value in chosen.items() if value] != ["lane"]:
        return None
    return remote.client.lane(chosen["lane"]).waiting


def begin_since(chosen: dict[str, Any], since: timedelta | None) -> None:
    """Sets what --since means. Raises UsageError beside --from."""
    if since is not None:
        if chosen["from_"] is not None:
            raise click.UsageError("Give --since or --from, not both.")
        chosen["from_"] = datetime.now(UTC) - since


def is_unclear(
    ids: Sequence[str], limit: int | None, chosen: dict[str, Any], *, matching: bool
) -> bool:
    """Whether neither ids nor filters say which are meant, or both do. A period or a limit alone is
    not enough."""
    return matching == bool(ids) or bool(
        not matching and (chosen["from_"] or chosen["to"] or limit)
    )


def counted(remote: Remote, limit: int | None, **chosen: Any) -> Counted:
    most = _COUNTED if limit is None else min(limit, _COUNTED)
    found = left = 0
    for each in remote.client.list(**chosen):
        is_left = (
            each.status == "scheduled"
            and chosen["recurring_id"] is None
            and each.slot is not None
            and each.attempts == 0
        )
        found, left = found + (not is_left), left + is_left
        if found > most:
            break
    return Counted(min(found, most), found > most and most != limit, left)


def carry_out(
    remote: Remote,
    act: Many,
    call: Callable[..., Sequence[Any]],
    asked: Counted | None,
    total: int | None,
) -> None:
    """Asks first if it was `asked` how many match. Calls `call` with `on_results`, shows how far it
    is, and prints what became of each, of many the sum. Exits with status 1 if one was refused."""
    done: Sequence[Any] = ()
    left = told = 0
    if asked is not None and not asked.number:
        left = asked.left
    else:
        if asked is not None:
            click.confirm(act.question.format(asked) + _left(asked.left), abort=True, err=True)
            told, total = asked.left, total if asked.more else asked.number
        done = _done(remote, act, call, total)
        left = getattr(done, "occurrences_left", 0)
    if left not in (0, told):
        click.echo(_left(left).strip(), err=True)
    _show_each(remote, act, done)
    if refused := _refused(done):
        sentence = f"{len(refused):,} of {len(done):,} could not be {act.was}"
        fail(sentence, as_json=remote.as_json)


def _done(
    remote: Remote, act: Many, call: Callable[..., Sequence[Any]], total: int | None
) -> Sequence[Any]:
    """An error or Ctrl-C ends the command, and shows the results that there were."""
    from postdate import PostdateError

    done: list[Any] = []
    progress = Progress(act.doing, total, shown=not remote.as_json)

    def tell(some: Sequence[Any]) -> None:
        done.extend(some)
        progress.add(len(some))

    try:
        progress.draw()
        found = call(on_results=tell)
        progress.clear()
        return found
    except (PostdateError, KeyboardInterrupt) as error:
        progress.clear()
        answer = answered(error) if isinstance(error, PostdateError) else None
        if answer and not done:
            raise
        said = "Interrupted"
        if isinstance(error, PostdateError):
            said = with_hint(sentence_of(error), remote.base_url).rstrip(".")
        if done or remote.as_json:
            _show_each(remote, act, done)
        more = "More" if done else "Some"
        more += f" may have been {act.was}. Run it again to do what is left"
        fail(f"{said}. {more}", as_json=remote.as_json, answered=answer)


def _refused(done: Sequence[Any]) -> list[PostdateError]:
    from postdate import PostdateError

    return [each for each in done if isinstance(each, PostdateError)]


def _show_each(remote: Remote, act: Many, done: Sequence[Any]) -> None:
    from postdate import PostdateError

    refused = _refused(done)
    if remote.as_json:
        answers = [
            {act.id_name: each.schedule_id, "code": each.status_code, "error": str(each)}
            | {"reason": each.reason}
            if isinstance(each, PostdateError)
            else each
            for each in done
        ]
        remote.show(answers, "")
    elif len(done) <= _FEW:
        lines = [
            f"{each.schedule_id}  {each if isinstance(each, PostdateError) else act.text_of(each)}"
            for each in done
        ]
        remote.show((), "\n".join(lines) or act.none)
    else:
        ends = Counter(act.end_of(each) for each in done if not isinstance(each, PostdateError))
        ends["refused"] = len(refused)
        remote.show((), ", ".join(f"{count:,} {end}" for end, count in ends.items()))
        for each in refused[:_SHOWN_REFUSALS]:
            click.echo(visible(f"{each.schedule_id}  {each}"), err=True)
        if len(refused) > _SHOWN_REFUSALS:
            click.echo("Further ones are only counted; --json tells all of them.", err=True)


def _left(count: int) -> str:
    if count == 0:
        return ""
    if count == 1:
        return " 1 belongs to a recurring schedule and stays: pause that instead."
    return f" {count:,} belong to recurring schedules and stay: pause those instead."


def _cancelled(each: Cancelled) -> str:
    how = "Cancelled" if each.status == "cancelled" else "Stopped after an attempt"
    return f"{how}  {each.credits_remaining:,} credits"


_CANCEL = Many(
    "Cancelling",
    "cancelled",
    "Cancel {} that wait?",
    "Nothing that waits matches.",
    _cancelled,
    lambda each: "cancelled" if each.status == "cancelled" else "stopped after an attempt",
)
_REPLAY = Many(
    "Replaying",
    "replayed",
    "Replay {} that failed, for a credit each?",
    "Nothing that failed matches.",
    lambda each: f"Replay of {each.replay_of}",
    lambda _: "replayed",
    id_name="replayOf",
)
