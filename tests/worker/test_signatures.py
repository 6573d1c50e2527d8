"""Signatures: the signed text, the secrets, and requests that cannot be signed."""

from __future__ import annotations

import asyncio
import hmac
import time
from base64 import b64decode, b64encode
from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError
from structlog.testing import capture_logs

from postdate import VerificationFailed, verify
from scheduler.callers import SigningSecret
from scheduler.errors import StoreUnavailable
from scheduler.models import Invocation
from tests.worker.desk import LEASE_MS, Invocations, ScriptedStore
from tests.worker.scene import Scene
from tests.worker.scripted import answer, answering, playing, until
from worker.holdings import Holdings
from worker.leases import Touch
from worker.signatures import GOOD_FOR_S, READ_EVERY_S, Hmac, Signatures, Signer

NOW_MS = 1_795_161_600_123
ACCOUNT = "acc_00_x"


def secret(letter: str, expires_at_ms: int | None = None) -> SigningSecret:
    value = "whsec_" + b64encode(letter.encode() * 32).decode()
    return SigningSecret(f"sec_{letter}", value, 0, expires_at_ms)


def with_body(body: bytes | None) -> Invocation:
    return Invocations().one(body=body)


def headers_of(lines: bytes) -> dict[str, str]:
    assert lines.endswith(b"\r\n")
    return dict(line.split(": ", 1) for line in lines.decode().splitlines())


@given(st.binary(max_size=200), st.binary(max_size=600))
def test_it_is_the_hmac_of_the_standard_library(key: bytes, text: bytes) -> None:
    """Twice: the first one leaves nothing behind."""
    ours = Hmac(key)
    expected = b64encode(hmac.digest(key, text, "sha256"))
    assert [ours.base64(text) for _ in range(2)] == [expected] * 2


@pytest.mark.parametrize("body", [None, b'{"n":1.50}', bytes(range(256))])
def test_every_live_secret_signs_the_newest_first(body: bytes | None) -> None:
    live = [secret("c"), secret("b", NOW_MS + 1)]
    ended = secret("a", NOW_MS)
    lines = Signer([*live, ended], 0.0).header_lines(b"inv_1", NOW_MS, with_body(body))
    headers = headers_of(lines)
    assert headers["webhook-id"] == "inv_1"
    assert headers["webhook-timestamp"] == str(NOW_MS // 1000)
    assert len(headers["webhook-signature"].split(" ")) == 2
    text = f"inv_1.{NOW_MS // 1000}.".encode() + (body or b"")
    for each, signature in zip(live, headers["webhook-signature"].split(" "), strict=True):
        key = each.secret.encode()
        raw = b64decode(key.removeprefix(b"whsec_"))
        assert signature == "v1," + b64encode(hmac.digest(raw, text, "sha256")).decode()
        verify(headers, body or b"", each.secret, now=NOW_MS / 1000)
    with pytest.raises(VerificationFailed):
        verify(headers, body or b"", ended.secret, now=NOW_MS / 1000)


def test_a_secret_ends_at_its_millisecond_and_not_with_its_second() -> None:
    ends_ms = NOW_MS // 1000 * 1000 + 500
    signer = Signer([secret("b"), secret("a", ends_ms)], 0.0)
    counts = []
    for moment_ms in (ends_ms - 100, ends_ms - 1, ends_ms, ends_ms + 100, ends_ms + 1000):
        headers = headers_of(signer.header_lines(b"inv_1", moment_ms, with_body(b"")) or b"")
        counts.append(len(headers["webhook-signature"].split(" ")))
    assert counts == [2, 2, 1, 1, 1]


def test_the_package_of_the_standard_verifies_it() -> None:
    moment_ms, body = time.time_ns() // 1_000_000, b'{"n":1.50}'
    lines = Signer([secret("a")], 0.0).header_lines(b"inv_1", moment_ms, with_body(body))
    headers = headers_of(lines or b"")
    package = Webhook(secret("a").secret)
    package.verify(body, headers)
    with pytest.raises(WebhookVerificationError):
        package.verify(body + b" ", headers)


class Read:
    """Signatures over a scripted store, with a clock of their own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = ScriptedStore({0: 0, 1: 0})
        self.signing = self.store.signing
        self.holdings = Holdings(100, 10**9)
        self.touch = Touch(LEASE_MS, LEASE_MS)
        self.signatures = Signatures(self.store.as_store, self.holdings, self.touch)
        self.now_s = 1000.0
        monkeypatch.setattr("worker.signatures.elapsed_s", lambda: self.now_s)

    def invocation(self, shard: int = 0, account: str = "x") -> Any:
        return self.store.claims.make.one(shard, account, body=b"{}")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    return Read(monkeypatch)


async def test_what_was_read_is_good_for_a_while_and_no_longer(read: Read) -> None:
    invocation, signatures = read.invocation(), read.signatures
    assert signatures.header_lines(invocation) is None
    assert signatures.missing([invocation]) == {ACCOUNT}
    assert await signatures.read({ACCOUNT}) == set()
    headers = headers_of(signatures.header_lines(invocation) or b"")
    now_s = read.store.clock.now_ms() / 1000
    verify(headers, b"{}", read.signing.secret, now=now_s)
    read.now_s += READ_EVERY_S + 0.01
    # It is read again, and good meanwhile.
    assert signatures.missing([invocation]) == {ACCOUNT}
    assert signatures.header_lines(invocation) is not None
    read.now_s = 1000 + GOOD_FOR_S + 0.01
    assert signatures.header_lines(invocation) is None


async def test_it_counts_from_the_question_and_not_from_the_answer(read: Read) -> None:
    """A read that began before a rotation may answer after it."""

    def slow() -> None:
        read.now_s += GOOD_FOR_S + 1

    read.signing.reading = slow
    await read.signatures.read({ACCOUNT})
    assert read.signatures.header_lines(read.invocation()) is None


async def test_a_last_secret_that_ends_signs_nothing_and_is_read_again(read: Read) -> None:
    now_ms, invocation = read.store.clock.now_ms(), read.invocation()
    read.signing.broken[ACCOUNT] = secret("a", now_ms + 60_000)
    await read.signatures.read({ACCOUNT})
    assert read.signatures.header_lines(invocation) is not None
    read.store.clock.observe(1000 * (now_ms + 120_000))
    assert read.signatures.header_lines(invocation) is None
    assert read.signatures.missing([invocation]) == {ACCOUNT}
    await read.signatures.read({ACCOUNT})
    assert read.signatures.faults[ACCOUNT] == ("None of its signing secrets is good any more", "")


async def test_what_is_held_is_read_anew_shard_by_shard(read: Read) -> None:
    held = [read.invocation(0, "a" * 8), *(read.invocation(1, "b" * 8) for _ in range(2))]
    read.holdings.add(held)
    read.store.claims.away.add(0)
    await read.signatures.read_all()
    assert sorted(read.signing.asked) == [["acc_00_aaaaaaaa"], ["acc_01_bbbbbbbb"]]
    assert read.touch.lost == {0}
    assert read.signatures.missing(held) == {"acc_00_aaaaaaaa"}


async def test_what_a_claim_brings_is_signed(scene: Scene) -> None:
    async with playing(answering(answer(), answer())) as target:
        given = [scene.hand_out(url=target.url()) for _ in range(2)]
        await scene.run_until(lambda: set(scene.recorded) == set(given))
    assert len(scene.store.signing.asked) == 1
    now_s = scene.store.clock.now_ms() / 1000
    for request in target.requests:
        head, _, body = request.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")[1:]
        headers = {name.lower(): value for name, value in (each.split(": ") for each in lines)}
        verify(headers, body, scene.store.signing.secret, now=now_s)


async def test_while_secrets_cannot_be_read_nothing_is_sent_and_nothing_is_lost(
    scene: Scene,
) -> None:
    failures = 3

    def failing() -> None:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise StoreUnavailable("away")

    scene.store.signing.reading = failing
    async with playing(answering(answer())) as target:
        invocation = scene.hand_out(url=target.url())
        await scene.start()
        await until(lambda: failures == 0)
        assert target.requests == []
        await until(lambda: scene.recorded == [invocation])
        await scene.stop()
    assert (len(target.requests), invocation.attempt) == (1, 1)
    assert b"webhook-signature: v1," in target.requests[0]


@pytest.mark.parametrize("bad_secret", [SigningSecret("sec_1", "whsec_!", 0), secret("a", 1)])
async def test_what_is_no_secret_holds_up_its_own_account_alone(
    scene: Scene, bad_secret: SigningSecret
) -> None:
    """Be it damaged, or the account's only one and over."""
    scene.store.signing.broken["acc_00_bad"] = bad_secret
    with capture_logs() as told:
        async with playing(answering(answer(), answer())) as target:
            bad = scene.claims.make.one(0, "bad", url=target.url())
            scene.claims.given.append(bad)
            good = scene.hand_out(url=target.url())
            await scene.start()
            await until(lambda: scene.recorded == [good])
            # It waits in the store, for a worker that can read its secret.
            await until(lambda: scene.claims.released == [bad] and scene.held == 0)
            assert bad.due_at_ms > scene.store.clock.now_ms()
            # Nor does anybody connect for it.
            assert target.accepted == 1
            scene.store.signing.broken.clear()
            bad.due_at_ms = 0
            scene.claims.given.append(bad)
            await until(lambda: set(scene.recorded) == {good, bad})
            await scene.stop()
    faults = [each for each in told if each["event"] == "a signing secret cannot be used"]
    assert [each["account"] for each in faults] == ["acc_00_bad"]
    assert bad.attempt == 1


async def test_of_an_account_that_was_deleted_nothing_is_held(scene: Scene) -> None:
    scene.store.signing.gone.add(ACCOUNT)
    async with playing(answering(answer())) as target:
        scene.hand_out(url=target.url())
        await scene.run_until(lambda: scene.store.signing.asked != [] and scene.held == 0)
    assert (target.requests, scene.recorded, scene.claims.released) == ([], [], [])


async def test_a_claim_waits_for_no_secrets_but_those_of_its_account(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though one call brought both."""
    async with playing(answering(answer(), answer())) as target:
        # A shard rests after a claim; without that, both are due at the same look.
        monkeypatch.setattr(scene.worker.claimer, "_rest_ms", 0)
        first = scene.hand_out(0, account="known", url=target.url())
        await scene.start()
        await until(lambda: scene.recorded == [first])
        read, may_read = scene.store.signing.secrets_of, asyncio.Event()

        async def held(account_ids: Collection[str]) -> Any:
            await may_read.wait()
            return await read(account_ids)

        monkeypatch.setattr(scene.store.signing, "secrets_of", held)
        scene.hand_out(1, account="new", url=target.url())
        known = scene.hand_out(0, account="known", url=target.url())
        scene.worker.claimer.wake()
        await until(lambda: scene.recorded == [first, known])
        assert [0, 1] in [sorted(each) for each in scene.claims.together]
        may_read.set()
        await until(lambda: len(scene.recorded) == 3)
        await scene.stop()
