"""`postdate account member`: who signs in to an account; and links to the dashboard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from cli import parameters
from cli.acts import noted
from cli.options import Context, command, with_store
from cli.tables import Column, Row, at_ms
from scheduler.callers import OPERATOR, Role
from scheduler.events import Kind
from scheduler.texts import normal_email
from scheduler.times import format_iso8601

if TYPE_CHECKING:
    from scheduler.store import Store
    from scheduler.store.accounts.sign_in.members import Member

_HEARD_WITHIN_MS = 60_000
_ROLES = parameters.Choice([role.value for role in Role])
_COLUMNS = (
    Column("EMAIL"), Column("ROLE"), Column("SINCE (UTC)"), Column("INVITED UNTIL (UTC)"),
)  # fmt: skip


def email(text: str) -> str:
    """The address in its stored spelling. Raises click.BadParameter."""
    try:
        return normal_email(text) if text else ""
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from None


@click.group(name="member", cls=parameters.Group)
def member_group() -> None:
    """List who signs in to an account, invite, change roles, remove.

    EMAIL is the address of a member. The last owner can be removed here too: `postdate account
    link` always signs in.
    """


@member_group.command(name="list")
@click.argument("account")
@command()
def list_members(context: Context, account: str) -> None:
    """List the members of ACCOUNT and its open invitations."""

    async def read(store: Store) -> list[Member]:
        return await store.members.all(await store.accounts.id_of(account))

    members = with_store(context.settings, read, read_only=True, needs_keys=False)
    answers = [_json(each) for each in members]
    context.show_table(answers, _COLUMNS, [_row(each) for each in members], "No members.")


@member_group.command(name="invite")
@click.argument("account")
@click.argument("address", metavar="EMAIL", type=email)
@click.option("--role", type=_ROLES, default=Role.OWN.value, show_default=True)
@command()
def invite(context: Context, account: str, address: str, role: str) -> None:
    """Print a link that makes EMAIL a member of ACCOUNT, once and within three days.

    The link sets a password. No mail is sent.
    """

    async def make(store: Store) -> tuple[str, str]:
        found = await store.accounts.find(account)
        async with noted(store, Kind.MEMBERS, found.account_id, f"invited {address}, {role}"):
            secret = await store.members.invite(found.account_id, address, Role(role), OPERATOR)
        return found.account_id, link_url(await api_url(context, store), secret)

    account_id, url = with_store(context.settings, make)
    context.show({"accountId": account_id, "email": address, "role": role, "link": url}, url)


@member_group.command(name="role")
@click.argument("account")
@click.argument("address", metavar="EMAIL", type=email)
@click.argument("role", type=_ROLES)
@command()
def set_role(context: Context, account: str, address: str, role: str) -> None:
    """Let the member EMAIL of ACCOUNT read, act or own, from the next request on."""

    async def change(store: Store, account_id: str) -> Member:
        return await store.members.set_role(
            account_id, address, Role(role), OPERATOR, keeps_owner=False
        )

    _change(context, account, f"role of {address}: {role}", change)


@member_group.command(name="remove")
@click.argument("account")
@click.argument("address", metavar="EMAIL", type=email)
@command()
def remove(context: Context, account: str, address: str) -> None:
    """Remove the member EMAIL of ACCOUNT, or the invitation; their browsers are signed out."""

    async def end(store: Store, account_id: str) -> Member:
        return await store.members.remove(account_id, address, OPERATOR, keeps_owner=False)

    _change(context, account, f"removed {address}", end)


@member_group.command(name="link")
@click.argument("account")
@click.argument("address", metavar="EMAIL", type=email)
@command()
def link(context: Context, account: str, address: str) -> None:
    """Print a link that sets a new password of the member EMAIL, once and within an hour."""

    async def make(store: Store) -> tuple[str, str]:
        found = await store.accounts.find(account)
        member = await store.members.get(found.account_id, address)
        async with noted(store, Kind.LINK, found.account_id, f"set the password of {address}"):
            secret = await store.sessions.make_link(found.account_id, member.member_id)
        return found.account_id, link_url(await api_url(context, store), secret)

    account_id, url = with_store(context.settings, make)
    context.show({"accountId": account_id, "email": address, "link": url}, url)


def _change(
    context: Context,
    account: str,
    about: str,
    change: Callable[[Store, str], Awaitable[Member]],
) -> None:
    async def run(store: Store) -> Member:
        found = await store.accounts.find(account)
        async with noted(store, Kind.MEMBERS, found.account_id, about):
            return await change(store, found.account_id)

    member = with_store(context.settings, run)
    context.show_table(_json(member), _COLUMNS, [_row(member)])


def _json(member: Member) -> dict[str, object]:
    moments = {"joinedAt": member.since_ms, "invitedUntil": member.until_ms}
    told = {name: None if ms is None else format_iso8601(ms) for name, ms in moments.items()}
    return {"email": member.email, "role": member.role.value, **told}


def _row(member: Member) -> Row:
    return Row([member.email, member.role, at_ms(member.since_ms), at_ms(member.until_ms)])


async def api_url(context: Context, store: Store) -> str:
    """The public URL, or where a running API says that it is, or else what these settings say."""
    known = None if context.settings.public_url else await _known_url(store)
    return known or context.settings.url


async def _known_url(store: Store) -> str | None:
    """A public URL is preferred to where a process listens."""
    from scheduler.store.operators.heartbeats import LOCAL_URL, PUBLIC_URL

    apis = [each.says for each in await store.apis.running(_HEARD_WITHIN_MS)]
    urls = (says[url] for url in (PUBLIC_URL, LOCAL_URL) for says in apis if url in says)
    return next(urls, None)


def link_url(base_url: str, secret: str) -> str:
    return f"{base_url}/dashboard/link/{secret}"
