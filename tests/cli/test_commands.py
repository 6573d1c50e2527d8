"""`postdate account`, `key` and `check`: what they do, print and refuse."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from redis import Redis

from cli.output import NO_ANSWER
from scheduler.models import Plan
from scheduler.runtime.settings import Settings
from tests.support.servers import ValkeyProcess, postdate, postdate_json


@pytest.fixture
def url(valkey: ValkeyProcess) -> str:
    return valkey.url


@pytest.fixture
def account_id(url: str) -> str:
    create = ("account", "create", "ada", "--credits", "7", "--plan", "pro")
    return str(postdate_json(*create, redis_url=url)["accountId"])


def test_an_account_is_made_listed_given_credits_and_changed_by_name_or_id(
    url: str, account_id: str
) -> None:
    account = {"accountId": account_id, "name": "ada", "credits": 7, "plan": "pro"}
    for name, total in (("ada", 10), (account_id, 13)):
        granted = postdate_json("account", "grant", name, "3", redis_url=url)
        assert granted == account | {"credits": total}
    for name, plan in (("ada", "scale"), (account_id, "free")):
        assert postdate_json("account", "plan", name, plan, redis_url=url)["plan"] == plan
    assert postdate_json("account", "suspend", "ada", redis_url=url)["suspended"] is True
    assert "suspended" not in postdate_json("account", "resume", "ada", redis_url=url)
    renamed = postdate_json("account", "rename", "ada", "lovelace", redis_url=url)
    assert (renamed["accountId"], renamed["name"]) == (account_id, "lovelace")
    free = postdate_json("account", "create", "ada", redis_url=url)
    assert (free["credits"], free["plan"]) == (0, "free")
    taken = postdate("account", "rename", "ada", "lovelace", redis_url=url)
    assert taken.returncode == 1
    assert taken.stderr == "Error: There is an account called 'lovelace' already.\n"
    assert postdate_json("check", redis_url=url) == {"problems": []}


def test_a_list_tells_what_is_stored_of_what_may_be_or_that_it_cannot_be_read(
    url: str, account_id: str
) -> None:
    postdate("account", "create", "bob", "--plan", "unlimited", redis_url=url)
    with Redis.from_url(url) as client:
        [base] = client.keys(f"*}}{account_id[-8:]}:account")
        client.hset(base, "bytes", "garbage")
        client.set(base.removesuffix(b"account") + b"expiring", "garbage")
    listed = {each["name"]: each for each in postdate_json("account", "list", redis_url=url)}
    ada, bob = listed["ada"], listed["bob"]
    assert (ada["storedBytes"], ada["quotaBytes"]) == (None, Settings().stored_bytes[Plan.PRO])
    assert (bob["storedBytes"], bob["quotaBytes"]) == (0, None)
    head, *rows = postdate("account", "list", redis_url=url).stdout.splitlines()
    assert head.split() == ["ID", "NAME", "CREDITS", "PLAN", "STORED"]
    assert re.search(r"  ada +7  pro +unknown size of [\d.]+ \wiB$", rows[0])
    assert re.search(r"  bob +0  unlimited  0 B$", rows[1])


def test_a_deletion_asks_and_takes_only_a_yes(url: str, account_id: str) -> None:
    done = postdate("account", "delete", "ada", redis_url=url, stdin="\n")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"Delete ada ({account_id}) with 0 waiting schedules, 7 credits" in done.stderr
    deleted = postdate("account", "delete", "ada", redis_url=url, stdin="y\n")
    assert deleted.stdout == f"{account_id}  ada  deleted; 0 schedules were cancelled\n"
    assert postdate_json("account", "list", redis_url=url) == []


def test_a_key_is_made_listed_and_deactivated(url: str, account_id: str) -> None:
    made = postdate_json("key", "create", "ada", "--name", "ci", redis_url=url)
    assert set(made) == {"keyId", "key", "name"}
    [listed] = postdate_json("key", "list", "ada", redis_url=url)
    assert (listed["keyId"], listed["name"], listed["active"]) == (made["keyId"], "ci", True)
    assert made["key"].startswith(listed["prefix"])
    assert made["key"] not in json.dumps(listed)
    assert postdate_json("key", "deactivate", made["keyId"], redis_url=url)["active"] is False
    [listed] = postdate_json("key", "list", "ada", redis_url=url)
    assert listed["active"] is False


def test_the_next_step_is_told_beside_the_answer_and_never_to_machines(url: str) -> None:
    made = postdate("account", "create", "ada's", redis_url=url)
    assert re.fullmatch(r"ID .*\nacc_\S+  ada's +0  free\n", made.stdout)
    steps = re.findall(r"^    postdate (.+?)  +# ", made.stderr, re.MULTILINE)
    words = [shlex.split(step) for step in steps]
    assert [each[:3] for each in words] == [
        ["key", "create", "ada's"],
        ["account", "grant", "ada's"],
        ["account", "link", "ada's"],
    ]
    ran = [postdate(*each, redis_url=url, port=8080) for each in words]
    assert [each.returncode for each in ran] == [0, 0, 0]
    key, _, rest = ran[0].stdout.partition("\n")
    assert re.fullmatch(r"key_\S+, shown only this once\.\n", rest)
    assert "curl $POSTDATE_URL/schedule" in ran[0].stderr
    assert "POSTDATE_URL=http://127.0.0.1:8080\n" in ran[0].stderr
    assert key not in ran[0].stderr
    richer = ("account", "create", "bob", "--credits", "5", "--email", "bob@example.com")
    assert "grant" not in (told := postdate(*richer, redis_url=url).stderr)
    assert "account link" not in told
    for machine in (("account", "create", "cy"), ("key", "create", "cy", "--name", "x")):
        assert postdate(*machine, "--json", redis_url=url).stderr == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("account", "create", "ada"),
        ("account", "grant", "nobody", "1"),
        ("account", "delete", "nobody", "--yes"),
        ("account", "link", "nobody"),
        ("key", "create", "nobody", "--name", "x"),
        ("key", "list", "nobody"),
        ("key", "deactivate", "nonsense"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    url: str, account_id: str, arguments: tuple[str, ...]
) -> None:
    plain = postdate(*arguments, redis_url=url)
    assert (plain.returncode, plain.stdout) == (1, "")
    assert re.match(r"Error: [A-Z][^\n]*\.\n$", plain.stderr)
    as_json = postdate(*arguments, "--json", redis_url=url)
    assert (as_json.returncode, as_json.stdout) == (1, "")
    told = {"error": plain.stderr.removeprefix("Error: ").strip(), **NO_ANSWER}
    assert json.loads(as_json.stderr) == told


UNSEEN = ["  ", "two\nlines", "n" * 201]


@pytest.mark.parametrize(
    "arguments",
    [
        ("account", "plan", "ada", "gold"),
        *(("account", "grant", "--", "ada", each) for each in ("0", "99999999999999999999")),
        *(("account", "create", each) for each in UNSEEN),
        *(("key", "create", "ada", "--name", each) for each in UNSEEN),
    ],
    ids=lambda arguments: f"{' '.join(arguments[:2])} {arguments[-1]!r:.20}",
)
def test_a_grant_is_positive_and_a_name_can_be_seen_and_typed_again(
    url: str, account_id: str, arguments: tuple[str, ...]
) -> None:
    done = postdate(*arguments, redis_url=url)
    assert (done.returncode, done.stdout) == (2, "")
    [ada] = postdate_json("account", "list", redis_url=url)
    assert (ada["credits"], ada["plan"]) == (7, "pro")
    assert postdate_json("key", "list", "ada", redis_url=url) == []


def test_check_says_whether_the_ledger_balances(url: str, account_id: str) -> None:
    plain = postdate("check", redis_url=url)
    assert (plain.returncode, plain.stdout) == (0, "Every invariant holds.\n")
    with Redis.from_url(url, decode_responses=True) as redis:
        [account] = [k for k in redis.scan_iter(_type="hash") if redis.hexists(k, "credits")]
        redis.hincrby(account, "credits", 5)
    done = postdate("check", "--json", redis_url=url)
    assert done.returncode == 1
    assert len(json.loads(done.stdout)["problems"]) == 1


def test_it_is_asked_whether_it_is_on_hold_and_that_changes_nothing(url: str) -> None:
    empty = postdate("hold", "--status", redis_url=url)
    assert (empty.returncode, "The store is empty" in empty.stderr) == (1, True)
    postdate("resume", redis_url=url)
    status = postdate_json("hold", "--status", redis_url=url)
    assert (status["onHoldSince"], status["shardsOnHold"]) == (None, 0)
    since = postdate_json("hold", redis_url=url)["onHoldSince"]
    on_hold = status | {"onHoldSince": since, "shardsOnHold": status["shards"]}
    assert postdate_json("hold", "--status", redis_url=url) == on_hold


@pytest.mark.parametrize("role", ["check", "api"])
def test_without_a_url_or_a_running_store_it_says_what_to_do(role: str, tmp_path: Path) -> None:
    done = postdate(role, data_dir=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"Error: No Postdate is running in {tmp_path}: start `postdate up`,"
        " or say where the store is with --redis-url or --data-dir.\n"
    )


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("redis+cluster://:secret@127.0.0.1:1", "Connection refused"),
        ("unix:///no/such/socket", "No such file or directory"),
    ],
)
def test_why_a_store_cannot_be_reached_is_said_without_the_password(where: str, why: str) -> None:
    done = postdate("account", "list", redis_url=where)
    assert (done.returncode, done.stdout) == (1, "")
    shown = where.replace(":secret", "…")
    assert done.stderr == f"Error: The store cannot be reached: {why} ({shown}).\n"


def test_a_variable_that_is_no_setting_is_said(url: str) -> None:
    done = postdate("resume", redis_url=url, prot=1)
    assert done.returncode == 0
    says = "POSTDATE_PROT is no setting of Postdate; did you mean POSTDATE_PORT?"
    assert done.stderr.count(says) == 1
    assert "is no setting" not in postdate("account", "list", redis_url=url, api_key="x").stderr
