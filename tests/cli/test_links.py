"""One-time links, as the command line makes them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from redis import Redis

from scheduler.store import keys
from scheduler.store.operators.heartbeats import LOCAL_URL, PUBLIC_URL
from tests.support.servers import PostdateProcess, ValkeyProcess, postdate, postdate_json

LINK = re.compile(r"https?://[^/\s]+/dashboard/link/\d\d_[\w-]{43}")


@pytest.fixture
def url(valkey: ValkeyProcess) -> str:
    return valkey.url


def test_an_account_with_an_email_address_gets_a_link_to_set_its_password(url: str) -> None:
    create = ("account", "create", "ada", "--email", "Ada@Example.com")
    made = postdate_json(*create, redis_url=url, port=8080)
    assert LINK.fullmatch(made["link"])
    assert made["link"].startswith("http://127.0.0.1:8080/")
    [member] = postdate_json("account", "member", "list", "ada", redis_url=url)
    assert (member["email"], member["role"]) == ("ada@example.com", "own")
    wrong = postdate("account", "create", "dan", "--email", "a b@c", redis_url=url)
    assert (wrong.returncode, "is not an e-mail address" in wrong.stderr) == (2, True)
    taken = postdate("account", "create", "dan", "--email", "ADA@example.com", redis_url=url)
    assert (taken.returncode, taken.stdout) == (1, "")
    told = (
        f"Error: ada@example.com is a member of {made['accountId']}, and of one account at most.\n"
    )
    assert taken.stderr == told


def test_members_are_invited_listed_changed_and_removed(url: str) -> None:
    def member(*words: str) -> Any:
        return postdate_json("account", "member", *words, redis_url=url)

    postdate_json("account", "create", "ada", "--email", "ada@example.com", redis_url=url)
    invited = member("invite", "ada", "Bob@example.com", "--role", "act")
    assert LINK.fullmatch(invited["link"])
    assert [(each["email"], each["role"]) for each in member("list", "ada")] == [
        ("ada@example.com", "own"),
        ("bob@example.com", "act"),
    ]
    assert member("role", "ada", "bob@example.com", "read")["role"] == "read"
    assert LINK.fullmatch(member("link", "ada", "ada@example.com")["link"])
    member("remove", "ada", "ada@example.com")  # the last owner
    head, row = postdate("account", "member", "list", "ada", redis_url=url).stdout.splitlines()
    assert head.split("  ")[-1] == "INVITED UNTIL (UTC)"
    assert re.fullmatch(r"bob@example.com  read  [\d-]{10} [\d:]{8}", row)
    for words, code, told in (
        (("link", "ada", "bob@example.com"), 1, "There is no such account or member"),
        (("remove", "ada", "ada@example.com"), 1, "The account has no such member."),
        (("invite", "ada", "bob"), 2, "is not an e-mail address"),
        (("role", "ada", "bob@example.com", "boss"), 2, "is not one of read, act, own."),
    ):
        refused = postdate("account", "member", *words, redis_url=url)
        assert (refused.returncode, told in refused.stderr) == (code, True), refused.stderr


def test_links_lead_to_where_the_api_is_by_its_public_address_or_else_as_it_listens(
    url: str,
) -> None:
    """Whatever port the environment of the command names. An API that was not heard of for a
    minute is gone."""

    def leads_to() -> str:
        made = postdate_json("account", "link", "ada", redis_url=url, port=8080)["link"]
        assert LINK.fullmatch(made)
        return str(made).partition("/dashboard/")[0]

    postdate_json("account", "create", "ada", redis_url=url)
    with Redis.from_url(url) as redis:
        now_ms = redis.time()[0] * 1000
        for heard_at_ms, says, base_url in (
            (now_ms - 60_000, LOCAL_URL, "http://127.0.0.1:8080"),
            (now_ms, LOCAL_URL, "http://127.0.0.1:1"),
            (now_ms, PUBLIC_URL, "https://postdate.example"),
        ):
            redis.hset(keys.APIS, base_url, f'{heard_at_ms} {{"{says}":"{base_url}"}}')
            assert leads_to() == base_url


def printed(up: PostdateProcess) -> str:
    lines = up.stdout.splitlines()
    assert lines[-1] == f"Postdate is ready: {up.base_url}"
    [link] = LINK.findall(up.stdout)
    assert link.startswith(up.base_url + "/dashboard/link/")
    return str(link)


def test_every_start_prints_a_link_while_there_is_the_first_account(url: str) -> None:
    """Before the ready line; under whatever name that account goes by now. Once it is gone it is
    not made again."""
    with PostdateProcess(redis_url=url) as up:
        assert up.api_key
        first = printed(up)
        postdate_json("account", "rename", "default", "mine", redis_url=url)
        assert up.stop() == 0
        up.start()
        assert printed(up) != first
        assert 'The dashboard of "mine"' in up.stdout
        [account] = postdate_json("account", "list", redis_url=url)
        assert account["name"] == "mine"
        postdate_json("account", "delete", "mine", "--yes", redis_url=url)
        up.stop()
        up.start()
        assert up.stdout.splitlines()[-1] == f"Postdate is ready: {up.base_url}"
        assert "link" not in up.stdout
        assert postdate_json("account", "list", redis_url=url) == []
