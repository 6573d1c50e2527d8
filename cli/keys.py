"""`postdate key`: the API keys of accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cli import parameters
from cli.acts import noted
from cli.members import api_url
from cli.options import Context, command, with_store
from cli.tables import Column, Row, at_ms
from scheduler.callers import OPERATOR, ApiKey
from scheduler.events import Kind
from scheduler.times import format_iso8601

if TYPE_CHECKING:
    from scheduler.store import Store


_COLUMNS = (
    Column("ID"), Column("NAME", least=12), Column("STATE"), Column("KEY"), Column("MADE (UTC)"),
    Column("LAST USED (UTC)"),
)  # fmt: skip


@click.group(name="key", cls=parameters.Group)
def key_group() -> None:
    """Make API keys, list them, deactivate them.

    A key goes in the header x-api-key of every request. ACCOUNT is a name or an id.
    """


@key_group.command(name="create")
@click.argument("account")
@click.option(
    "--name", type=parameters.name, required=True, metavar="TEXT", help="The key's purpose."
)
@command()
def create_key(context: Context, account: str, name: str) -> None:
    """Make a key for ACCOUNT and print it.

    Only its hash is stored: this is the one time that it is shown.
    """

    async def make(store: Store) -> tuple[ApiKey, str, str]:
        found = await store.accounts.find(account)
        url = await api_url(context, store)  # before the key: nothing that fails may lose it
        async with noted(store, Kind.KEY_MADE, found.account_id, name):
            return *await store.api_keys.create(found.account_id, name, OPERATOR), url

    key, value, url = with_store(context.settings, make)
    answer = {"keyId": key.key_id, "key": value, "name": key.name}
    context.show(answer, f"{value}\n{key.key_id}, shown only this once.")
    # Standard error ends up in logs: without the key.
    context.suggest(
        "\nNext, with that key, schedule a request:\n\n"
        f"    export POSTDATE_API_KEY=pd_… POSTDATE_URL={url}\n"
        '    curl $POSTDATE_URL/schedule -H "x-api-key: $POSTDATE_API_KEY"'
        ' -d \'{"targetUrl": "https://example.com", "delay": "3s"}\'\n\n'
        f"It shows at {url}/dashboard/requests."
    )


@key_group.command(name="list")
@click.argument("account")
@command()
def list_keys(context: Context, account: str) -> None:
    """List the keys of ACCOUNT, each by how it begins."""

    async def read(store: Store) -> list[ApiKey]:
        found = await store.accounts.find(account)
        return await store.api_keys.of_account(found.account_id)

    keys = with_store(context.settings, read, read_only=True, needs_keys=False)
    answers = [_key_json(key) for key in keys]
    context.show_table(answers, _COLUMNS, [_row(key) for key in keys], "No keys.")


@key_group.command(name="deactivate")
@click.argument("key_id")
@command()
def deactivate(context: Context, key_id: str) -> None:
    """Refuse the key KEY_ID from the next request on, for good."""

    async def end(store: Store) -> ApiKey:
        async with noted(store, Kind.KEY_DEACTIVATED, about=key_id):
            return await store.api_keys.deactivate(key_id, OPERATOR)

    key = with_store(context.settings, end)
    context.show_table(_key_json(key), _COLUMNS, [_row(key)])


def _key_json(key: ApiKey) -> dict[str, object]:
    return {
        "keyId": key.key_id,
        "name": key.name,
        "prefix": key.prefix,
        "active": key.active,
        "createdAt": format_iso8601(key.created_at_ms),
        "lastUsedAt": None if key.last_used_at_ms is None else format_iso8601(key.last_used_at_ms),
    }


def _row(key: ApiKey) -> Row:
    state = "active" if key.active else "inactive"
    times = [at_ms(key.created_at_ms), at_ms(key.last_used_at_ms)]
    return Row([key.key_id, key.name, state, f"{key.prefix}…", *times])
