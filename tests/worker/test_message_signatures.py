"""The signature of messages of the QStash door: the token, and when the key for it is read."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.models import Invocation, Occurrence, Outcome, Retry, Status
from scheduler.qstash.carried import Carried, pack
from scheduler.qstash.signing import Tokens
from tests.worker.desk import LEASE_MS, Invocations, ScriptedStore
from tests.worker.test_signatures import secret
from worker.holdings import Holdings
from worker.leases import Touch
from worker.signatures import DoorSigner, Hmac, Signatures

NOW_MS = 1_795_161_600_123
NOW_S = NOW_MS // 1000
KEY = "sig_" + "k" * 40
URL = "https://example.com/a?b=%7B"
DOOR = pack(Carried())
FAILED = Outcome(Status.FAILED, 503, 1, "Service Unavailable")


def claims_of(token: str | bytes, key: str = KEY) -> dict[str, Any]:
    found: dict[str, Any] = jwt.decode(
        token, key, algorithms=["HS256"], options={"verify_exp": False}
    )
    return found


def lines_of(invocation: Invocation, key: str = KEY) -> dict[str, str]:
    signer = DoorSigner([secret("a")], 0.0, key)
    lines = signer.header_lines(b"inv_1", NOW_MS, invocation)
    assert lines is not None
    assert lines.endswith(b"\r\n")
    return dict(line.split(": ", 1) for line in lines.decode().splitlines())


@given(st.binary(max_size=300), st.text(max_size=80), st.integers(1000, 2**41))
def test_a_token_says_what_was_sent_where_and_when(body: bytes, path: str, moment_ms: int) -> None:
    url, tokens = "https://example.com/" + path, Tokens(Hmac(KEY.encode()).base64)
    try:
        url.encode()
    except UnicodeEncodeError:
        return
    token = tokens.token(url, body, moment_ms)
    seconds = moment_ms // 1000 - 1
    claims = jwt.decode(
        token,
        KEY,
        algorithms=["HS256"],
        options={"verify_exp": False, "verify_nbf": False, "verify_iat": False},
    )
    assert claims.pop("jti").startswith("jwt_")
    assert claims == {
        "iss": "Upstash",
        "sub": url,
        "iat": seconds,
        "nbf": seconds,
        "exp": seconds + 300,
        "body": urlsafe_b64encode(hashlib.sha256(body).digest()).decode(),
    }
    assert jwt.get_unverified_header(token) == {"alg": "HS256", "typ": "JWT"}


def test_no_two_tokens_have_a_name_in_common() -> None:
    several = [Tokens(Hmac(KEY.encode()).base64) for _ in range(2)]
    made = [each.token(URL, b"", 1000 * n) for each in several for n in (1, 1, 2)]
    options = {"verify_exp": False}
    found = [jwt.decode(each, KEY, ["HS256"], options) for each in made]
    assert len({each["jti"] for each in found}) == 6


def test_a_message_gets_what_qstash_sends_beside_the_signature_of_all() -> None:
    door = pack(Carried(caller_ip="192.0.2.1", schedule_id="daily"))
    occurrence = Occurrence("rec_01jd3m0000e0080000000000a0", 0)
    fields = {"door": door, "labels": ("a", "b c"), "recurring": occurrence, "url": URL}
    message = Invocations().one(body=b"{}", **fields)
    message.retry = Retry(2, NOW_MS, 2, FAILED, NOW_MS)
    lines = lines_of(message)
    claims = claims_of(lines.pop("Upstash-Signature"))
    assert claims["sub"] == URL
    assert {name: lines[name] for name in lines if name.startswith("Upstash")} == {
        "Upstash-Message-Id": "msg_" + message.schedule_id[4:],
        "Upstash-Retried": "2",
        "Upstash-Caller-Ip": "192.0.2.1",
        "Upstash-Label": "a,b c",
        "Upstash-Schedule-Id": "daily",
    }
    assert lines["webhook-signature"].startswith("v1,")


def test_a_callback_is_no_repeat_of_its_message() -> None:
    message = Invocations().one(door=DOOR)
    assert lines_of(message)["Upstash-Retried"] == "0"
    message.is_callback = True
    assert lines_of(message)["Upstash-Message-Id"] == "msg_cbk_" + message.schedule_id[4:]


def test_no_value_ends_its_line_early() -> None:
    """The door refuses such a label, but something else may have stored it."""
    message = Invocations().one(door=DOOR, labels=("a\r\nX-Evil: 1",))
    assert lines_of(message)["Upstash-Label"] == "a  X-Evil: 1"


def test_other_requests_of_the_account_get_none_of_it() -> None:
    lines = lines_of(Invocations().one())
    assert sorted(lines) == ["webhook-id", "webhook-signature", "webhook-timestamp"]


class Read:
    """Signatures over a scripted store."""

    def __init__(self) -> None:
        self.store = ScriptedStore({0: 0})
        self.signing, self.make = self.store.signing, self.store.claims.make
        holdings, touch = Holdings(100, 10**9), Touch(LEASE_MS, LEASE_MS)
        self.signatures = Signatures(self.store.as_store, holdings, touch)


@pytest.fixture
def read() -> Read:
    return Read()


async def test_the_first_message_of_an_account_makes_its_keys(read: Read) -> None:
    native, message = read.make.one(), read.make.one(door=DOOR)
    account_id = message.account_id
    await read.signatures.read({account_id})
    # It is known, but nothing signs messages.
    assert read.signatures.missing([native]) == set()
    assert read.signatures.missing([native, message]) == {account_id}
    assert await read.signatures.read_for([native, message]) == [native, message]
    assert read.signatures.missing([native, message]) == set()
    [current, _] = read.signing.door[account_id]
    lines = dict(
        line.split(": ", 1)
        for line in (read.signatures.header_lines(message) or b"").decode().splitlines()
    )
    assert claims_of(lines["Upstash-Signature"], current.secret)["iss"] == "Upstash"
    assert b"Upstash" not in (read.signatures.header_lines(native) or b"Upstash")


async def test_accounts_without_messages_get_no_keys(read: Read) -> None:
    await read.signatures.read_for([read.make.one(0, each) for each in "ab"])
    assert read.signing.door == {}
    assert len(read.signing.asked) == 1


async def test_while_the_keys_cannot_be_made_messages_wait(read: Read) -> None:
    message = read.make.one(door=DOOR)
    await read.signatures.read({message.account_id})
    read.store.claims.away.add(0)
    assert await read.signatures.read_for([message]) == [message]
    assert read.signatures.missing([message]) == {message.account_id}


async def test_the_keys_of_a_deleted_account_are_not_made(read: Read) -> None:
    message = read.make.one(door=DOOR)
    read.signing.gone.add(message.account_id)
    assert await read.signatures.read_for([message]) == []
    assert read.signing.door == {}
