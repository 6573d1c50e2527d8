"""`postdate account`, `key` and `check`: what they do, print and refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from redis import Redis

from cli.options import with_store
from scheduler.models import Plan, Request
from scheduler.settings import Settings
from tests.client.line import Line
from tests.servers import ValkeyProcess, free_port, postdate, postdate_json, postdate_process

CREATED = {"name": "ada", "credits": 7, "plan": "pro"}


@pytest.fixture
def url(valkey: ValkeyProcess) -> str:
    return valkey.url


@pytest.fixture
def account_id(url: str) -> str:
    create = ("account", "create", "ada", "--credits", "7", "--plan", "pro")
    made = postdate_json(*create, redis_url=url)
    account_id = made.pop("accountId")
    assert made == CREATED
    return str(account_id)


def test_an_account_is_made_listed_given_credits_and_changed_by_name_or_id(
    url: str, account_id: str
) -> None:
    account = {"accountId": account_id, **CREATED}
    account |= {"storedBytes": 0, "quotaBytes": Settings().stored_bytes[Plan.PRO]}
    assert postdate_json("account", "list", redis_url=url) == [account]
    for name, total in (("ada", 10), (account_id, 13)):
        granted = postdate_json("account", "grant", name, "3", redis_url=url)
        assert granted == account | {"credits": total}
    for name, plan in (("ada", "scale"), (account_id, "free")):
        assert postdate_json("account", "plan", name, plan, redis_url=url)["plan"] == plan
    assert postdate("account", "plan", "ada", "gold", redis_url=url).returncode == 2
    assert postdate_json("account", "suspend", "ada", redis_url=url)["suspended"] is True
    assert "suspended" in postdate("account", "list", redis_url=url).stdout
    assert "suspended" not in postdate_json("account", "resume", "ada", redis_url=url)
    renamed = postdate_json("account", "rename", "ada", "lovelace", redis_url=url)
    assert (renamed["accountId"], renamed["name"]) == (account_id, "lovelace")
    free = postdate_json("account", "create", "ada", redis_url=url)
    assert (free["credits"], free["plan"]) == (0, "free")
    taken = postdate("account", "rename", "ada", "lovelace", redis_url=url)
    assert taken.returncode == 1
    assert taken.stderr == "There is an account called 'lovelace' already.\n"
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
    again = postdate_json("account", "create", "ada", redis_url=url)["accountId"]
    told = postdate_json("account", "delete", "ada", "--yes", redis_url=url)
    assert told == {"accountId": again, "name": "ada", "cancelled": 0}


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


def test_for_people_the_same_is_text(url: str, account_id: str) -> None:
    made = postdate("key", "create", "ada", "--name", "ci", redis_url=url)
    assert re.match(r"pd_\d+_[\w-]{43}\nkey_\d+_\w+, shown only this once\.\n$", made.stdout)
    listed = postdate_process("account", "list", redis_url=url)
    assert re.match(
        r"acc_\d+_\w+  ada  7 credits  pro  0 B of [\d.]+ \wiB stored\n$", listed.stdout
    )


def test_an_account_tells_what_it_has_stored_of_what_it_may(url: str, account_id: str) -> None:
    request = Request(2**41, "GET", "https://example.com/")
    stored = with_store(
        Settings(redis_url=url),
        lambda store: store.schedules.create_all(account_id, [request] * 5),
    )
    assert len(stored.schedule_ids) == 5
    postdate_json("account", "plan", account_id, "unlimited", redis_url=url)
    [listed] = postdate_json("account", "list", redis_url=url)
    assert 5 * 256 < listed["storedBytes"] < 5 * 512
    assert listed["quotaBytes"] is None
    shown = postdate("account", "list", redis_url=url).stdout
    assert re.search(r"unlimited  1\.\d KiB stored\n$", shown), shown


@pytest.mark.parametrize(
    "arguments",
    [
        ("account", "create", "ada"),
        ("account", "grant", "nobody", "1"),
        ("account", "plan", "nobody", "pro"),
        ("account", "suspend", "nobody"),
        ("account", "resume", "nobody"),
        ("account", "rename", "nobody", "somebody"),
        ("account", "delete", "nobody", "--yes"),
        ("account", "link", "nobody"),
        ("key", "create", "nobody", "--name", "x"),
        ("key", "list", "nobody"),
        ("key", "deactivate", "key_00_nosuchky"),
        ("key", "deactivate", "nonsense"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    url: str, account_id: str, arguments: tuple[str, ...]
) -> None:
    plain = postdate(*arguments, redis_url=url)
    assert (plain.returncode, plain.stdout) == (1, "")
    assert re.match(r"[A-Z][^\n]*\.\n$", plain.stderr)
    as_json = postdate(*arguments, "--json", redis_url=url)
    assert (as_json.returncode, as_json.stdout) == (1, "")
    told = {"error": plain.stderr.strip(), "status": None, "details": []}
    assert json.loads(as_json.stderr) == told


@pytest.mark.parametrize("amount", ["0", "-1", "x", "99999999999999999999"])
def test_a_grant_is_a_positive_number_within_reason(url: str, account_id: str, amount: str) -> None:
    assert postdate("account", "grant", "--", "ada", amount, redis_url=url).returncode == 2
    assert postdate_json("account", "list", redis_url=url)[0]["credits"] == 7


@pytest.mark.parametrize("name", ["", "  ", "two\nlines", "n" * 201])
def test_a_name_can_be_seen_and_typed_again(url: str, account_id: str, name: str) -> None:
    for arguments in (("account", "create", name), ("key", "create", "ada", "--name", name)):
        done = postdate(*arguments, redis_url=url)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("Usage: ")
    assert len(postdate_json("account", "list", redis_url=url)) == 1
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


@pytest.mark.parametrize("role", ["account list", "check", "api", "worker"])
def test_without_a_url_or_a_running_store_it_says_what_to_do(role: str, tmp_path: Path) -> None:
    done = postdate(*role.split(), data_dir=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"No Postdate is running in {tmp_path}: start `postdate up`,"
        " or say where the store is with --redis-url or --data-dir.\n"
    )


@pytest.mark.parametrize("command", ["account list", "worker", "api"])
def test_a_cluster_url_for_a_plain_server_is_one_sentence(command: str) -> None:
    port = free_port()
    with ValkeyProcess(port=port):
        url = f"redis+cluster://127.0.0.1:{port}"
        done = postdate_process(*command.split(), redis_url=url, port=0, log_level="error")
    assert (done.returncode, done.stdout) == (1, "")
    [sentence] = [line for line in done.stderr.splitlines() if "[error" not in line]
    assert sentence.startswith("The store is no Redis Cluster: its URL begins with redis://")


@pytest.mark.parametrize("command", ["account list", "worker", "api", "up"])
def test_an_option_that_a_stores_url_does_not_have_is_one_sentence(url: str, command: str) -> None:
    done = postdate_process(*command.split(), redis_url=url + "?foo=bar", port=0)
    assert (done.returncode, done.stdout) == (1, "")
    [sentence] = [line for line in done.stderr.splitlines() if "[error" not in line]
    assert sentence.startswith("The store's URL cannot be used: it has no option 'foo'")


def test_why_a_store_cannot_be_reached_is_said_without_the_password() -> None:
    with Line(b"") as speaks_no_tls:
        for where, why in (
            (f"redis://:secret@127.0.0.1:{free_port()}/0", "Connection refused"),
            ("redis://no-such-host.invalid", "Could not resolve host ("),
            (f"rediss://127.0.0.1:{speaks_no_tls.port}", "TLS failed ("),
            ("unix:///no/such/socket", "No such file or directory"),
            (f"redis+cluster://127.0.0.1:{free_port()}", "Connection refused"),
        ):
            done = postdate("account", "list", redis_url=where)
            assert (done.returncode, done.stdout) == (1, "")
            assert done.stderr.startswith(f"The store cannot be reached: {why}")
            assert done.stderr.endswith(f" ({where.replace(':secret', '…')}).\n")
            assert done.stderr.count("\n") == 1


def test_a_variable_that_is_no_setting_is_said(url: str) -> None:
    done = postdate("resume", redis_url=url, prot=1, concurency=2, xyzzy_plugh=3)
    assert done.returncode == 0
    for said in (
        "POSTDATE_PROT is no setting of Postdate; did you mean POSTDATE_PORT?",
        "POSTDATE_CONCURENCY is no setting of Postdate; did you mean POSTDATE_CONCURRENCY?",
        "POSTDATE_XYZZY_PLUGH is no setting of Postdate\n",
    ):
        assert done.stderr.count(said) == 1
    assert "is no setting" not in postdate("account", "list", redis_url=url, api_key="x").stderr


def test_a_bad_setting_is_one_sentence_that_names_it() -> None:
    done = postdate_process("up", port="x")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "POSTDATE_PORT cannot be 'x': it must be a whole number from 0 to 65535.\n"
    )


HELP = ["", "up", "api", "worker", "account create", "key create", "check"]
HELP += ["schedule", "cancel", "logs", "stats", "listen"]


@pytest.mark.parametrize("words", HELP)
def test_help_teaches(words: str) -> None:
    done = postdate(*words.split(), "--help")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) > 8
    assert "parent-fd" not in done.stdout
