"""One-time links, as the command line makes them."""

from __future__ import annotations

import re
import urllib.error
import urllib.request

import pytest
from redis import Redis

from scheduler.settings import Settings
from scheduler.store import keys
from scheduler.store.operators.heartbeats import LOCAL_URL, PUBLIC_URL
from tests.servers import PostdateProcess, ValkeyProcess, postdate, postdate_json

LINK = re.compile(r"http://[^/\s]+/dashboard/link/\d\d_[\w-]{43}")


@pytest.fixture
def url(valkey: ValkeyProcess) -> str:
    return valkey.url


def test_an_account_with_an_email_address_gets_a_link_to_set_its_password(url: str) -> None:
    create = ("account", "create", "ada", "--email", "Ada@Example.com")
    made = postdate_json(*create, redis_url=url, port=8080)
    assert set(made) == {"accountId", "name", "credits", "plan", "link"}
    assert LINK.fullmatch(made["link"])
    assert made["link"].startswith("http://127.0.0.1:8080/")
    assert "ada@example.com" in postdate("account", "list", redis_url=url).stdout
    assert "link" not in postdate_json("account", "create", "bob", redis_url=url)
    for_people = postdate("account", "create", "eve", "--email", "eve@example.com", redis_url=url)
    assert "To set the password, once and within an hour:" in for_people.stdout
    assert LINK.search(for_people.stdout)
    taken = postdate("account", "create", "dan", "--email", "ADA@example.com", redis_url=url)
    assert (taken.returncode, taken.stdout) == (1, "")
    assert taken.stderr == "ada@example.com belongs to another account already.\n"


@pytest.mark.parametrize("email", ["ada", "a b@c", "@"])
def test_what_is_no_email_address_is_refused(url: str, email: str) -> None:
    done = postdate("account", "create", "ada", "--email", email, redis_url=url)
    assert done.returncode == 2
    assert "is not an e-mail address" in done.stderr
    assert "The store is empty" in postdate("account", "list", redis_url=url).stderr


def test_a_new_link_is_made_for_a_name_or_an_id(url: str) -> None:
    made = postdate_json("account", "create", "ada", redis_url=url)
    links = [
        postdate_json("account", "link", account, redis_url=url)
        for account in ("ada", made["accountId"])
    ]
    assert len({each["link"] for each in links}) == 2
    assert {each["purpose"] for each in links} == {"sign-in"}
    one = postdate_json("account", "link", "ada", "--password", redis_url=url)
    assert one["purpose"] == "set-password"
    assert LINK.fullmatch(postdate("account", "link", "ada", redis_url=url).stdout.strip())


@pytest.mark.parametrize(
    ("settings", "base"),
    [
        (Settings(), "http://127.0.0.1:8000"),
        (Settings(host="::1", port=80), "http://[::1]:80"),
        (Settings(host="0.0.0.0", port=80), "http://127.0.0.1:80"),
        (Settings(host="::", port=80), "http://[::1]:80"),
        (Settings(public_url="https://postdate.example/x"), "https://postdate.example/x"),
    ],
)
def test_where_the_api_is_found(settings: Settings, base: str) -> None:
    assert settings.url == base


def test_links_lead_to_where_the_running_api_is(url: str) -> None:
    """Whatever the environment of the command says of a port; and nowhere once it is gone."""
    made = ("account", "create", "ada", "--email", "ada@example.com")
    assert postdate_json(*made, redis_url=url)["link"].startswith("http://127.0.0.1:8000/")
    with PostdateProcess(redis_url=url) as up:
        for link in (
            postdate_json("account", "link", "ada", redis_url=url)["link"],
            postdate_json("account", "create", "bob", "--email", "b@c", redis_url=url)["link"],
        ):
            assert link.startswith(up.base_url + "/")
        assert _status(postdate_json("account", "link", "default", redis_url=url)["link"]) == 200
        up.kill()
    with Redis.from_url(url) as redis:
        for process, said in redis.hgetall(keys.APIS).items():
            heard_at_ms, _, says = said.partition(b" ")
            redis.hset(keys.APIS, process, b"%d %b" % (int(heard_at_ms) - 60_000, says))
    assert postdate_json("account", "link", "ada", redis_url=url, port=8080)["link"].startswith(
        "http://127.0.0.1:8080/"
    )


def test_a_public_address_is_preferred_whoever_tells_it(url: str) -> None:
    postdate_json("account", "create", "ada", redis_url=url)
    with Redis.from_url(url) as redis:
        now_ms = redis.time()[0] * 1000
        redis.hset(keys.APIS, "a", f'{now_ms} {{"{LOCAL_URL}":"http://127.0.0.1:1"}}')
        redis.hset(keys.APIS, "b", f'{now_ms} {{"{PUBLIC_URL}":"https://postdate.example"}}')
    link = postdate_json("account", "link", "ada", redis_url=url)["link"]
    assert link.startswith("https://postdate.example/dashboard/link/")
    own = postdate_json("account", "link", "ada", redis_url=url, public_url="https://own.example")
    assert own["link"].startswith("https://own.example/")


def _printed(up: PostdateProcess) -> str:
    lines = up.stdout.splitlines()
    assert lines[-1] == f"Postdate is ready: {up.base_url}"
    [link] = LINK.findall(up.stdout)
    assert link.startswith(up.base_url + "/dashboard/link/")
    return str(link)


def _status(link: str) -> int:
    """Of the page that a link's button leads to, pressed by a client that keeps cookies."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    origin = link.partition("/dashboard")[0]
    pressed = urllib.request.Request(link, data=b"", headers={"origin": origin})
    try:
        with opener.open(pressed) as answer:
            assert answer.url.endswith("/dashboard")
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_every_start_prints_a_link_that_signs_in_while_there_is_the_first_account(
    url: str,
) -> None:
    """Before the ready line; under whatever name that account goes by now. Once it is gone it is
    not made again."""
    with PostdateProcess(redis_url=url) as up:
        assert up.api_key
        first = _printed(up)
        assert _status(first) == 200
        assert _status(first) == 410
        postdate_json("account", "rename", "default", "mine", redis_url=url)
        assert up.stop() == 0
        up.start()
        assert _printed(up) != first
        assert _status(_printed(up)) == 200
        assert 'The dashboard of "mine"' in up.stdout
        [account] = postdate_json("account", "list", redis_url=url)
        assert account["name"] == "mine"
        postdate_json("account", "delete", "mine", "--yes", redis_url=url)
        up.stop()
        up.start()
        assert up.stdout.splitlines()[-1] == f"Postdate is ready: {up.base_url}"
        assert "link" not in up.stdout
        assert postdate_json("account", "list", redis_url=url) == []
