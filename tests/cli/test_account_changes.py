"""`postdate account plan`, `suspend`, `resume`, `rename` and `delete`."""

from __future__ import annotations

import pytest
from redis import Redis

from scheduler.models import Plan
from scheduler.settings import Settings
from tests.servers import ValkeyProcess, postdate, postdate_json


@pytest.fixture
def url(valkey: ValkeyProcess) -> str:
    return valkey.url


@pytest.fixture
def account_id(url: str) -> str:
    made = postdate_json("account", "create", "ada", "--credits", "7", redis_url=url)
    return str(made["accountId"])


def test_a_plan_is_changed_by_name_or_id(url: str, account_id: str) -> None:
    changed = postdate_json("account", "plan", "ada", "pro", redis_url=url)
    assert changed == {
        "accountId": account_id,
        "name": "ada",
        "credits": 7,
        "plan": "pro",
        "storedBytes": 0,
        "quotaBytes": Settings().stored_bytes[Plan.PRO],
    }
    assert postdate_json("account", "plan", account_id, "scale", redis_url=url)["plan"] == "scale"
    assert postdate("account", "plan", "ada", "gold", redis_url=url).returncode == 2


def test_an_account_is_suspended_and_resumed(url: str, account_id: str) -> None:
    assert postdate_json("account", "suspend", "ada", redis_url=url)["suspended"] is True
    assert "suspended" in postdate("account", "list", redis_url=url).stdout
    resumed = postdate_json("account", "resume", "ada", redis_url=url)
    assert "suspended" not in resumed
    assert (resumed["accountId"], resumed["plan"]) == (account_id, "free")


def test_an_account_is_renamed(url: str, account_id: str) -> None:
    renamed = postdate_json("account", "rename", "ada", "lovelace", redis_url=url)
    assert (renamed["accountId"], renamed["name"]) == (account_id, "lovelace")
    postdate_json("account", "create", "ada", redis_url=url)
    taken = postdate("account", "rename", "ada", "lovelace", redis_url=url)
    assert (taken.returncode, taken.stderr) == (
        1,
        "There is an account called 'lovelace' already.\n",
    )
    assert postdate_json("check", redis_url=url) == {"problems": []}


def test_what_weighs_nobody_knows_what_is_changed_and_listed(url: str, account_id: str) -> None:
    """An operator who sees that a grant failed would grant twice."""
    postdate("account", "create", "bob", redis_url=url)
    with Redis.from_url(url) as client:
        [base] = client.keys(f"*:{account_id[-8:]}:account")
        client.hset(base, "bytes", "garbage")
        client.set(base.removesuffix(b"account") + b"expiring", "garbage")
    granted = postdate_json("account", "grant", "ada", "3", redis_url=url)
    assert (granted["credits"], granted["storedBytes"]) == (10, None)
    listed = postdate_json("account", "list", redis_url=url)
    assert {each["name"]: each["storedBytes"] for each in listed} == {"ada": None, "bob": 0}
    assert "unknown size of" in postdate("account", "list", redis_url=url).stdout


@pytest.mark.parametrize("answer", ["", "n\n", "\n"])
def test_a_deletion_asks_and_takes_only_a_yes(url: str, account_id: str, answer: str) -> None:
    done = postdate("account", "delete", "ada", redis_url=url, stdin=answer)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"Delete ada ({account_id}) with 0 waiting schedules, 7 credits" in done.stderr
    assert len(postdate_json("account", "list", redis_url=url)) == 1


def test_an_account_is_deleted(url: str, account_id: str) -> None:
    deleted = postdate("account", "delete", "ada", redis_url=url, stdin="y\n")
    assert deleted.stdout == f"{account_id}  ada  deleted; 0 schedules were cancelled\n"
    assert postdate_json("account", "list", redis_url=url) == []
    gone = postdate("account", "delete", "ada", "--yes", redis_url=url)
    assert (gone.returncode, gone.stderr) == (1, "There is no account called 'ada'.\n")
    again = postdate_json("account", "create", "ada", redis_url=url)["accountId"]
    told = postdate_json("account", "delete", "ada", "--yes", redis_url=url)
    assert told == {"accountId": again, "name": "ada", "cancelled": 0}


@pytest.mark.parametrize("words", ["plan nobody pro", "suspend nobody", "resume x", "rename x y"])
def test_nobody_cannot_be_changed(url: str, words: str) -> None:
    done = postdate("account", *words.split(), redis_url=url)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("There is no account called ")
