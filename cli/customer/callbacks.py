"""`postdate callback`: where ends of schedules are reported, how that went, and doing it again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import click

from cli import parameters
from cli.customer import many
from cli.customer.remote import Remote, remote_command
from cli.customer.schedules import callback_text
from cli.tables import Column, Row, at

if TYPE_CHECKING:
    from postdate import Account, CallbackStatus, Schedule

_COLUMNS = (
    Column("CALLBACK"), Column("ATTEMPTS", right=True), Column("NEXT (UTC)"), Column("ID"),
    Column("STATUS"), Column("REFERENCE"), Column("ANSWER", least=12),
)  # fmt: skip
_DID = {"failed": "have failed", "delivered": "were delivered"}


@click.group(name="callback", cls=parameters.Group)
def callback_group() -> None:
    """Report the ends of schedules to a URL, each at least once.

    These commands are for all schedules of the account that name no callback of their own; for one
    schedule there is postdate schedule --callback URL.
    """


@callback_group.command(name="show")
@remote_command()
def show_command(remote: Remote) -> None:
    """Show the callback of schedules that name none."""
    _show(remote, remote.client.account())


@callback_group.command(name="set")
@click.argument("callback_url", metavar="TARGET")
@click.option(
    "--on",
    "callback_on",
    type=parameters.Choice(["executed", "failed"]),
    default="executed",
    show_default=True,
    help="Report each end, or only a failure.",
)
@remote_command()
def set_command(
    remote: Remote, callback_url: str, callback_on: Literal["executed", "failed"]
) -> None:
    """Report the ends of schedules without a callback to TARGET, a URL.

    \b
    postdate callback set https://example.com/ended --on failed
    """
    given: dict[str, Any] = {"callback_url": callback_url, "callback_on": callback_on}
    _show(remote, remote.client.change_account(**given))


@callback_group.command(name="clear")
@remote_command()
def clear_command(remote: Remote) -> None:
    """Report nothing of schedules that name no callback. Pending callbacks are still sent."""
    _show(remote, remote.client.change_account(callback_url=None))


def _which(*words: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A flag for each list of callbacks."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        for word in reversed(words):
            says = f"Callbacks that {'are pending' if word == 'pending' else _DID[word]}."
            option = click.option(f"--{word}", "callback", flag_value=word, help=says)
            function = option(function)
        return function

    return decorate


@callback_group.command(name="list")
@_which("failed", "pending", "delivered")
@parameters.filter_options()
@click.option("--limit", type=parameters.Whole(min=1), default=20, show_default=True)
@remote_command()
def list_command(
    remote: Remote, callback: CallbackStatus | None, limit: int, **filters: Any
) -> None:
    """List schedules whose callback failed, is pending or was delivered. Failed is the default.

    Failed callbacks come newest first, and --from and --to mean the moment of the failure. Pending
    ones come by their next attempt, delivered ones by the schedule's end.

    \b
    postdate callback list --failed --lane invoices
    """
    which = callback or "failed"
    found = list(remote.client.list(callback=which, limit=limit + 1, **filters))
    remote.show_page(found, limit, _COLUMNS, _row, f"No {which} callbacks.")


@callback_group.command(name="send")
@click.argument("schedule_ids", metavar="[ID...]", nargs=-1)
@_which("failed", "delivered")
@click.option("--since", type=parameters.duration, help="Only those of the last 1h, 2d.")
@many.choosing_options(" Only those that failed from then on.")
@click.option(
    "--callback", "callback_url", metavar="URL", help="With one ID: to this URL, or default."
)
@remote_command()
def send_command(
    remote: Remote,
    schedule_ids: tuple[str, ...],
    callback: Literal["failed", "delivered"] | None,
    since: timedelta | None,
    limit: int | None,
    yes: bool,
    callback_url: str | None,
    **chosen: Any,
) -> None:
    """Report once more how schedules ended, with the same webhook-id.

    Give ids, or options for all that match and whose callback failed, the oldest first. 50 go out
    a second.

    \b
    postdate callback send sch_01m7td70g0fw3s9s2m2v2v2v2v
    postdate callback send --failed --since 1h
    """
    many.begin_since(chosen, since)
    matching = bool(callback) or any(chosen[name] is not None for name in many.CHOOSING)
    if many.is_unclear(schedule_ids, limit, chosen, matching=matching):
        raise click.UsageError(
            f"Give ids, or --failed, --delivered, --since, {many.FLAGS}, --limit. {many.ALONE}"
        )
    if callback_url is not None and len(schedule_ids) != 1:
        raise click.UsageError("--callback goes with one id.")
    if len(schedule_ids) == 1:
        [name] = schedule_ids
        sent = remote.client.resend_callback(name, callback_url=callback_url)
        remote.show(sent, f"{name}  {callback_text(sent)}")
        return
    which = callback or "failed"
    asked = None
    if schedule_ids:
        send = partial(remote.client.resend_callbacks, schedule_ids)
    else:
        send = partial(remote.client.resend_callbacks, callback=which, limit=limit, **chosen)
        asked = None if yes else many.counted(remote, limit, callback=which, **chosen)
    act = many.Many(
        "Sending again",
        "sent again",
        f"Send {{}} that {_DID[which]} again?",
        f"No {which} callback matches.",
        lambda each: callback_text(each.callback),
        lambda each: each.callback.status,
    )
    many.carry_out(remote, act, send, asked, len(schedule_ids) or limit)


def _row(schedule: Schedule) -> Row:
    names = (schedule.schedule_id, schedule.status, schedule.reference or "")
    stands = schedule.callback
    if stands is None:
        return Row(["", "", "", *names, ""])
    said = f"{stands.status_code or ''} {stands.error_message or ''}".strip()
    return Row([stands.status, str(stands.attempts), at(stands.next_attempt_at), *names, said])


def _show(remote: Remote, account: Account) -> None:
    where = "No default callback."
    if account.callback_url is not None:
        ends = "ends" if account.callback_on == "executed" else "failures"
        where = f"{ends} are reported to {account.callback_url}"
    remote.show(account, where)
