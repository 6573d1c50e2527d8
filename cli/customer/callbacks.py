"""`postdate callback`: where ends of schedules are reported, and reporting one again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from cli.customer.remote import Remote, remote_command
from cli.customer.schedules import callback_text

if TYPE_CHECKING:
    from postdate import Account


@click.group(name="callback")
def callback_group() -> None:
    """Have the ends of schedules reported to a URL, once each, and never lost.

    postdate schedule --callback URL is for one schedule; these are for all of the account that
    name none.
    """


@callback_group.command(name="show")
@remote_command()
def show_command(remote: Remote) -> None:
    """Show where ends are reported of schedules that do not say."""
    _show(remote, remote.client.account())


@callback_group.command(name="set")
@click.argument("callback_url", metavar="TARGET")
@click.option(
    "--on",
    "callback_on",
    type=click.Choice(["executed", "failed"]),
    default="executed",
    show_default=True,
    help="Report each end, or only a failure.",
)
@remote_command()
def set_command(
    remote: Remote, callback_url: str, callback_on: Literal["executed", "failed"]
) -> None:
    """Report the ends of schedules that do not say otherwise to the URL TARGET.

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


@callback_group.command(name="resend")
@click.argument("schedule_id", metavar="ID")
@click.option("--to", "callback_url", metavar="TARGET", help="To this URL, from now on.")
@remote_command()
def resend_command(remote: Remote, schedule_id: str, callback_url: str | None) -> None:
    """Report once more how the schedule ID ended, with the same webhook-id.

    \b
    postdate callback resend sch_01m7td70g0fw3s9s2m2v2v2v2v
    """
    callback = remote.client.resend_callback(schedule_id, callback_url=callback_url)
    remote.show(callback, f"{schedule_id}  {callback_text(callback)}")


def _show(remote: Remote, account: Account) -> None:
    where = "No default callback."
    if account.callback_url is not None:
        ends = "ends" if account.callback_on == "executed" else "failures"
        where = f"{ends} are reported to {account.callback_url}"
    remote.show(account, where)
