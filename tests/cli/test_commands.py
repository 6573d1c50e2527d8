"""`postdate account`, `key` and `check`: what they do, print and refuse."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
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


def make_account(url: str) -> str:
    made = postdate_json(
        "account", "create", "ada", "--credits", "7", "--plan", "pro", redis_url=url
    )
    account_id = made.pop("accountId")
    assert made == CREATED
    return str(account_id)


def test_an_account_is_made_listed_and_given_credits(url: str) -> None:
    account_id = make_account(url)
    stored = {"storedBytes": 0, "quotaBytes": Settings().stored_bytes[Plan.PRO]}
    [listed] = postdate_json("account", "list", redis_url=url)
    assert listed == {"accountId": account_id, **CREATED, **stored}
    for account, total in (("ada", 10), (account_id, 13)):
        granted = postdate_json("account", "grant", account, "3", redis_url=url)
        assert granted == {"accountId": account_id, **CREATED, **stored, "credits": total}


def test_an_account_starts_free_and_without_credits(url: str) -> None:
    made = postdate_json("account", "create", "bob", redis_url=url)
    assert (made["credits"], made["plan"]) == (0, "free")


def test_a_key_is_made_listed_and_deactivated(url: str) -> None:
    make_account(url)
    made = postdate_json("key", "create", "ada", "--name", "ci", redis_url=url)
    assert set(made) == {"keyId", "key", "name"}
    [listed] = postdate_json("key", "list", "ada", redis_url=url)
    assert (listed["keyId"], listed["name"], listed["active"]) == (made["keyId"], "ci", True)
    assert made["key"].startswith(listed["prefix"])
    assert made["key"] not in json.dumps(listed)
    assert postdate_json("key", "deactivate", made["keyId"], redis_url=url)["active"] is False
    [listed] = postdate_json("key", "list", "ada", redis_url=url)
    assert listed["active"] is False


def test_for_people_the_same_is_text(url: str) -> None:
    make_account(url)
    made = postdate("key", "create", "ada", "--name", "ci", redis_url=url)
    assert re.match(r"pd_\d+_[\w-]{43}\nkey_\d+_\w+, shown only this once\.\n$", made.stdout)
    listed = postdate_process("account", "list", redis_url=url)
    assert re.match(
        r"acc_\d+_\w+  ada  7 credits  pro  0 B of [\d.]+ \wiB stored\n$", listed.stdout
    )


def test_an_account_tells_what_it_has_stored_of_what_it_may(url: str) -> None:
    account_id = make_account(url)
    request = Request(2**41, "GET", "https://example.com/")
    stored = with_store(
        Settings(redis_url=url),
        lambda store: store.schedules.create_all(account_id, [request] * 5),
    )
    assert len(stored.schedule_ids) == 5
    [listed] = postdate_json("account", "list", redis_url=url)
    assert 5 * 256 < listed["storedBytes"] < 5 * 512
    postdate_json("account", "plan", account_id, "unlimited", redis_url=url)
    [listed] = postdate_json("account", "list", redis_url=url)
    assert listed["quotaBytes"] is None
    shown = postdate("account", "list", redis_url=url).stdout
    assert re.search(r"unlimited  1\.\d KiB stored\n$", shown), shown


@pytest.mark.parametrize(
    "arguments",
    [
        ("account", "create", "ada"),
        ("account", "grant", "nobody", "1"),
        ("key", "create", "nobody", "--name", "x"),
        ("key", "list", "nobody"),
        ("key", "deactivate", "key_00_nosuchky"),
        ("key", "deactivate", "nonsense"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(url: str, arguments: tuple[str, ...]) -> None:
    make_account(url)
    plain = postdate(*arguments, redis_url=url)
    assert (plain.returncode, plain.stdout) == (1, "")
    assert re.match(r"[A-Z][^\n]*\.\n$", plain.stderr)
    as_json = postdate(*arguments, "--json", redis_url=url)
    assert (as_json.returncode, as_json.stdout) == (1, "")
    told = {"error": plain.stderr.strip(), "status": None, "details": []}
    assert json.loads(as_json.stderr) == told


@pytest.mark.parametrize("amount", ["0", "-1", "x", "99999999999999999999"])
def test_a_grant_is_a_positive_number_within_reason(url: str, amount: str) -> None:
    make_account(url)
    assert postdate("account", "grant", "--", "ada", amount, redis_url=url).returncode == 2
    assert postdate_json("account", "list", redis_url=url)[0]["credits"] == 7


@pytest.mark.parametrize("name", ["", "  ", "two\nlines", "n" * 201])
def test_a_name_can_be_seen_and_typed_again(url: str, name: str) -> None:
    make_account(url)
    for arguments in (("account", "create", name), ("key", "create", "ada", "--name", name)):
        done = postdate(*arguments, redis_url=url)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("Usage: ")
    assert len(postdate_json("account", "list", redis_url=url)) == 1
    assert postdate_json("key", "list", "ada", redis_url=url) == []


def test_check_finds_nothing_wrong_with_a_good_store(url: str) -> None:
    make_account(url)
    assert postdate_json("check", redis_url=url) == {"problems": []}
    plain = postdate("check", redis_url=url)
    assert (plain.returncode, plain.stdout) == (0, "Every invariant holds.\n")


def test_check_reports_a_ledger_that_does_not_balance(url: str) -> None:
    make_account(url)
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


def test_a_store_that_is_away_is_one_sentence_without_the_password() -> None:
    url = f"redis://:secret@127.0.0.1:{free_port()}/0"
    done = postdate("account", "list", redis_url=url)
    assert done.returncode == 1
    assert re.match(r"[A-Z][^\n]*\.\n$", done.stderr)
    assert "secret" not in done.stderr


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


@pytest.fixture
def speaks_no_tls() -> Iterator[str]:
    """Where a server listens that answers a handshake in plain text."""
    with Line(b"") as line:
        yield f"127.0.0.1:{line.port}"


def test_why_a_store_cannot_be_reached_is_said(speaks_no_tls: str) -> None:
    for where, why in (
        (f"redis://127.0.0.1:{free_port()}", "Connection refused"),
        ("redis://no-such-host.invalid", "Could not resolve host ("),
        (f"rediss://{speaks_no_tls}", "TLS failed ("),
        ("unix:///no/such/socket", "No such file or directory"),
        (f"redis+cluster://127.0.0.1:{free_port()}", "Connection refused"),
    ):
        done = postdate("account", "list", redis_url=where)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"The store cannot be reached: {why}")
        assert done.stderr.endswith(f" ({where}).\n")


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


@pytest.mark.parametrize(
    "words", ["", "up", "api", "worker", "account create", "key create", "check"]
)
def test_help_teaches(words: str) -> None:
    done = postdate(*words.split(), "--help")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) > 8
    assert "parent-fd" not in done.stdout
