"""`postdate account`: the accounts, and what they may spend."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from cli import parameters
from cli.acts import noted
from cli.members import api_url, email, link_url, member_group
from cli.options import Context, command, with_store
from cli.tables import Column, Ready, Row, table
from scheduler.errors import NotFound, StoreRefused
from scheduler.events import Kind
from scheduler.models import Account, Plan

if TYPE_CHECKING:
    from scheduler.store import Store
    from scheduler.store.accounts.accounts import Deleted

# In one step. What many steps add up to stays a number that JSON's readers have exactly.
_MOST_CREDITS = 10**12
_READ_AT_ONCE = 100
_COLUMNS = (
    Column("ID"), Column("NAME", least=12), Column("CREDITS", right=True), Column("PLAN"),
    Column("STORED"), Column("ROLE"), Column("STATE"),
)  # fmt: skip


@click.group(name="account", cls=parameters.Group)
def account_group() -> None:
    """Make accounts, list them, change them, give them credits.

    One credit pays for one schedule. ACCOUNT is always a name or an id.
    """


account_group.add_command(member_group)


@account_group.command(name="create")
@click.argument("name", type=parameters.name)
@click.option(
    "--credits",
    "granted",
    type=parameters.Whole(0, _MOST_CREDITS),
    default=0,
    show_default=True,
    metavar="N",
)
@click.option(
    "--plan",
    type=parameters.Choice([plan.value for plan in Plan]),
    default=Plan.FREE.value,
    show_default=True,
    help="The plan: requests a second, and bytes stored.",
)
@click.option(
    "--email",
    "address",
    default="",
    type=email,
    metavar="TEXT",
    help="The address of its first member, an owner, who signs in with it. Prints a link that sets"
    " the password.",
)
@click.option(
    "--operator", is_flag=True, help="Its holder may see the operators' pages of the dashboard."
)
@command()
def create(
    context: Context, name: str, granted: int, plan: str, address: str, operator: bool
) -> None:
    """Make the account NAME, and say what it needs next."""

    async def make(store: Store) -> tuple[Account, str | None]:
        role = ", operator" if operator else ""
        about = f"{name}: {granted:,} credits, plan {plan}{role}"
        async with noted(store, Kind.CREATE, about=about):
            account = await store.accounts.create(
                name, credits=granted, plan=Plan(plan), email=address, operator=operator
            )
        if not address:
            return account, None
        member = await store.members.get(account.account_id, address)
        return account, await _link(context, store, account, member.member_id)

    account, link = with_store(context.settings, make)
    if link is None:
        context.show_table(_json(account), _COLUMNS, [_row(account)])
    else:
        shown = table(_COLUMNS, [_row(account)])
        text = f"{shown}\n\nTo set the password, once and within an hour:\n\n    {link}\n"
        context.show({**_json(account), "link": link}, Ready(text))
    context.suggest(_next_steps(account, link))


@account_group.command(name="list")
@command()
def list_accounts(context: Context) -> None:
    """List accounts with their credits, plan and stored bytes."""
    from api.dashboard.formats import size

    async def stored_bytes(store: Store, account: Account) -> int | None:
        try:
            return await store.accounts.stored_bytes(account.account_id)
        except StoreRefused:
            return None  # it cannot be read, and the others can

    async def read(store: Store) -> zip[tuple[Account, int | None]]:
        accounts, _ = await store.accounts.some()
        stored: list[int | None] = []
        for i in range(0, len(accounts), _READ_AT_ONCE):
            some = accounts[i : i + _READ_AT_ONCE]
            stored += await asyncio.gather(*(stored_bytes(store, each) for each in some))
        return zip(accounts, stored, strict=True)

    answers, rows = [], []
    for account, stored in with_store(context.settings, read, read_only=True, needs_keys=False):
        quota = context.settings.stored_bytes.get(account.plan)  # None: no limit
        text = "unknown size" if stored is None else size(stored)
        limit = "" if quota is None else f" of {size(quota)}"
        answers.append({**_json(account), "storedBytes": stored, "quotaBytes": quota})
        rows.append(_row(account, f"{text}{limit}"))
    context.show_table(answers, _COLUMNS, rows, "No accounts.")


@account_group.command(name="grant")
@click.argument("account")
@click.argument("more", metavar="N", type=parameters.Whole(1, _MOST_CREDITS))
@command()
def grant(context: Context, account: str, more: int) -> None:
    """Give ACCOUNT N more credits."""
    _change(
        context,
        account,
        Kind.GRANT,
        f"{more:,} credits",
        lambda store, found: store.accounts.grant(found, more),
    )


@account_group.command(name="plan")
@click.argument("account")
@click.argument("plan", type=parameters.Choice([plan.value for plan in Plan]))
@command()
def change_plan(context: Context, account: str, plan: str) -> None:
    """Put ACCOUNT on another plan, from its next request on."""
    _change(
        context,
        account,
        Kind.PLAN,
        plan,
        lambda store, found: store.changes.plan(found, Plan(plan)),
    )


@account_group.command(name="suspend")
@click.argument("account")
@command()
def suspend(context: Context, account: str) -> None:
    """Stop ACCOUNT until it is resumed.

    Its calls get a 403, and due schedules wait: none is dropped. Workers still send schedules that
    they have claimed, which they do a moment before the time.
    """
    _change(context, account, Kind.SUSPEND, "", lambda store, found: store.changes.suspend(found))


@account_group.command(name="resume")
@click.argument("account")
@command()
def resume(context: Context, account: str) -> None:
    """Let ACCOUNT go on.

    Schedules that came due meanwhile are sent now, late; expired ones are not.
    """
    _change(context, account, Kind.REINSTATE, "", lambda store, found: store.changes.resume(found))


@account_group.command(name="rename")
@click.argument("account")
@click.argument("name", type=parameters.name)
@command()
def rename(context: Context, account: str, name: str) -> None:
    """Change the name of ACCOUNT to NAME. Its id, keys and schedules stay."""
    _change(
        context, account, Kind.RENAME, name, lambda store, found: store.changes.rename(found, name)
    )


@account_group.command(name="delete")
@click.argument("account")
@click.option("--yes", is_flag=True, help="Do not ask.")
@command()
def delete(context: Context, account: str, yes: bool) -> None:
    """Delete ACCOUNT with its schedules, log, keys and sessions.

    Waiting schedules are not sent, and nothing can be restored. If it is interrupted, the same
    command goes on with it.
    """
    if not yes:
        click.confirm(_warning(context, account), abort=True, err=True)

    async def remove(store: Store) -> Deleted:
        account_id = await store.accounts.leaving_id_of(account)
        async with noted(store, Kind.DELETE, account_id, account):
            return await store.changes.delete(account_id)

    gone = with_store(context.settings, remove)
    context.show(
        {"accountId": gone.account_id, "name": gone.name, "cancelled": gone.unended},
        f"{gone.account_id}  {gone.name}  deleted; {gone.unended:,} schedules were cancelled",
    )


@account_group.command(name="link")
@click.argument("account")
@command()
def link(context: Context, account: str) -> None:
    """Print a link that signs in to ACCOUNT's dashboard.

    It may do everything there, and is good once, within an hour. The dashboard's address is
    POSTDATE_PUBLIC_URL, or else that of a running API, or else of POSTDATE_HOST and POSTDATE_PORT.
    """

    async def make(store: Store) -> tuple[Account, str]:
        found = await store.accounts.find(account)
        return found, await _link(context, store, found)

    found, url = with_store(context.settings, make)
    context.show({"accountId": found.account_id, "link": url}, url)


async def _link(context: Context, store: Store, account: Account, member_id: str = "") -> str:
    """A new link, once and for an hour: it signs in, or sets the member's password."""
    about = "set a password" if member_id else "sign in"
    async with noted(store, Kind.LINK, account.account_id, about):
        secret = await store.sessions.make_link(account.account_id, member_id)
    return link_url(await api_url(context, store), secret)


def _next_steps(account: Account, link: str | None) -> str:
    name = shlex.quote(account.name)
    steps = {f"postdate key create {name} --name first": "prints an API key, once"}
    if not account.credits:
        steps[f"postdate account grant {name} 1000"] = "each schedule costs a credit"
    if link is None:
        steps[f"postdate account link {name}"] = "prints a link to its dashboard"
    width = max(map(len, steps))
    return "\nNext:\n" + "".join(f"\n    {step:{width}}  # {why}" for step, why in steps.items())


def _change(
    context: Context,
    account: str,
    kind: Kind,
    about: str,
    change: Callable[[Store, str], Awaitable[Account]],
) -> None:
    async def run(store: Store) -> Account:
        found = await store.accounts.find(account)
        async with noted(store, kind, found.account_id, about):
            return await change(store, found.account_id)

    changed = with_store(context.settings, run)
    context.show_table(_json(changed), _COLUMNS, [_row(changed)])


def _warning(context: Context, account: str) -> str:
    """What the deletion ends; after an interrupted deletion little is left to count."""

    async def read(store: Store) -> str:
        try:
            found = await store.accounts.find(account)
        except NotFound:
            return f"Delete what is left of {account}?"
        pulse = await store.overview.pulse(found.account_id)
        return (
            f"Delete {found.name} ({found.account_id}) with {pulse.waiting:,} waiting schedules,"
            f" {found.credits:,} credits, its log and its keys? This cannot be undone."
        )

    return with_store(context.settings, read)


def _json(account: Account) -> dict[str, object]:
    answer: dict[str, object] = {
        "accountId": account.account_id,
        "name": account.name,
        "credits": account.credits,
        "plan": account.plan.value,
    }
    if account.suspended:
        answer["suspended"] = True
    return answer


def _row(account: Account, stored: str = "") -> Row:
    named = [account.account_id, account.name, f"{account.credits:,}", account.plan, stored]
    return Row([*named, "operator" * account.operator, "suspended" * account.suspended])
