"""`postdate account`: the accounts, and what they may spend."""

from __future__ import annotations

from typing import TypedDict

import click

from cli.options import Context, command, with_store
from scheduler.models import Account, Plan
from scheduler.store import Store


class AccountJson(TypedDict):
    accountId: str
    name: str
    credits: int
    plan: str


@click.group(name="account")
def account_group() -> None:
    """Make accounts, list them, give them credits.

    One credit pays for one schedule. ACCOUNT is always a name or an id.
    """


@account_group.command(name="create")
@click.argument("name")
@click.option("--credits", "granted", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--plan",
    type=click.Choice([plan.value for plan in Plan]),
    default=Plan.FREE.value,
    show_default=True,
    help="How many requests a second it may make of the API.",
)
@click.option("--email", default="", help="Where its holder can be reached.")
@click.option("--operator", is_flag=True, help="Its holder looks after this Postdate.")
@command()
def create(
    context: Context, name: str, granted: int, plan: str, email: str, operator: bool
) -> None:
    """Make the account NAME.

    Next, give it a key: postdate key create NAME --name "my first key"
    """

    async def make(store: Store) -> Account:
        return await store.accounts.create(
            name, credits=granted, plan=Plan(plan), email=email, operator=operator
        )

    _show(context, with_store(context.settings, make))


@account_group.command(name="list")
@command()
def list_accounts(context: Context) -> None:
    """List every account with its credits."""
    accounts = with_store(context.settings, lambda store: store.accounts.list_accounts())
    lines = [_line(account) for account in accounts]
    context.show([_json(account) for account in accounts], "\n".join(lines) or "No accounts.")


@account_group.command(name="grant")
@click.argument("account")
@click.argument("more", metavar="N", type=click.IntRange(min=1))
@command()
def grant(context: Context, account: str, more: int) -> None:
    """Give ACCOUNT N more credits."""

    async def give(store: Store) -> Account:
        found = await store.accounts.find(account)
        return await store.accounts.grant(found.account_id, more)

    _show(context, with_store(context.settings, give))


def _show(context: Context, account: Account) -> None:
    context.show(_json(account), _line(account))


def _json(account: Account) -> AccountJson:
    return {
        "accountId": account.account_id,
        "name": account.name,
        "credits": account.credits,
        "plan": account.plan.value,
    }


def _line(account: Account) -> str:
    extras = [account.email] * bool(account.email) + ["operator"] * account.operator
    told = f"{account.account_id}  {account.name}  {account.credits:,} credits  {account.plan}"
    return "  ".join([told, *extras])
