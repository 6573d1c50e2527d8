"""Certificates that are not valid: the message tells their owner what to mend."""

from __future__ import annotations

import datetime
import re
import ssl
import tempfile
from typing import Any

import pytest
import trustme

from tests.worker.scripted import answer, answering
from tests.worker.send.firing import OK, fired, firing_at, invocation_of, server_context
from worker.send.certificates import why_invalid
from worker.send.fire import NOT_SENT

PAST = datetime.datetime(2020, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
LATER = datetime.datetime(2999, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
HOST = "hooks.example"


def sending(key: bytes, *chain: bytes) -> ssl.SSLContext:
    """A server's context that sends just these certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(b"".join((key, *chain)))
        file.flush()
        context.load_cert_chain(file.name)
    return context


def kinds(authority: trustme.CA) -> dict[str, tuple[ssl.SSLContext, str]]:
    """Servers by what is wrong with them, and the patterns of their messages."""
    names = [f"n{n}.example" for n in range(5)]
    below = authority.create_child_ca().issue_cert(HOST)
    stranger, distant = trustme.CA(), trustme.CA().create_child_ca()
    issuer = r'its issuer "Testing CA #[^"]+"'
    key, [leaf, *_] = (
        below.private_key_pem.bytes(),
        [each.bytes() for each in below.cert_chain_pems],
    )
    incomplete = "its chain is incomplete: the certificate of " + issuer + " is not sent"
    either = issuer + " is not trusted here, or its chain is incomplete: .*"
    issued, of = authority.issue_cert, server_context
    instead = r"not for hooks\.example"
    three = r"n0\.example, n1\.example, n2\.example and 2 more"
    return {
        "expired": (of(issued(HOST, not_after=PAST)), r"it expired on 2020-01-02 03:04:05 UTC"),
        "not valid yet": (
            of(issued(HOST, not_before=LATER)),
            r"it is not valid before 2999-01-02 03:04:05 UTC",
        ),
        "another name": (of(issued("other.example")), rf"it is for other\.example, {instead}"),
        "other names": (of(issued(*names)), rf"it is for {three}, {instead}"),
        "an address": (of(issued("10.0.0.1")), rf"it is for 10\.0\.0\.1, {instead}"),
        "self-signed": (
            sending(stranger.private_key_pem.bytes(), stranger.cert_pem.bytes()),
            "it is self-signed",
        ),
        "an unknown issuer": (server_context(stranger.issue_cert(HOST)), either),
        "an unknown issuer above the one that is sent": (
            server_context(distant.issue_cert(HOST)),
            issuer + " is not trusted here",
        ),
        "an unknown root that is sent": (
            sending(
                (foreign := stranger.issue_cert(HOST)).private_key_pem.bytes(),
                foreign.cert_chain_pems[0].bytes(),
                stranger.cert_pem.bytes(),
            ),
            issuer + " is not trusted here",
        ),
        "an issuer that is not sent": (sending(key, leaf), either),
        "another issuer than the one that is sent": (
            sending(key, leaf, stranger.cert_pem.bytes()),
            incomplete,
        ),
    }


KINDS = list(kinds(trustme.CA()))


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_wrong_with_a_certificate(
    kind: str, authority: trustme.CA, options: dict[str, Any]
) -> None:
    tls, why = kinds(authority)[kind]
    async with firing_at(answering(answer()), tls=tls, **options) as (target, firer):
        result = await fired(firer, invocation_of(target.url(host=HOST, scheme="https")))
    assert result.brief[:2] == ("failed", 0)
    assert re.fullmatch("TLS certificate is not valid: " + why, result.outcome.error_message)
    assert (result.sent_at_s, target.requests) == (NOT_SENT, [])


async def test_a_chain_that_is_sent_whole_is_valid_and_a_large_one_is_not_looked_at(
    authority: trustme.CA, options: dict[str, Any]
) -> None:
    whole = authority.create_child_ca().issue_cert(HOST)
    large = authority.issue_cert(*(f"n{n:060}.example" for n in range(250)))
    why = "Hostname mismatch, certificate is not valid for 'hooks.example'."
    invalid = ("failed", 0, f"TLS certificate is not valid: {why}")
    for certificate, brief in ((whole, OK), (large, invalid)):
        tls = server_context(certificate)
        async with firing_at(answering(answer()), tls=tls, **options) as (target, firer):
            result = await fired(firer, invocation_of(target.url(host=HOST, scheme="https")))
        assert result.brief == brief


def described(subject: str, issuer: str, **more: Any) -> dict[str, Any]:
    name = ((("commonName", subject),),)
    return {"subject": name, "issuer": ((("commonName", issuer),),), **more}


@pytest.mark.parametrize(
    ("code", "chain", "why"),
    [
        (
            20,
            [described("a", "R3", caIssuers=("http://r3.example/",))],
            'its chain is incomplete: the certificate of its issuer "R3" is not sent',
        ),
        (21, [described("a", "\x1bevil" + "x" * 99)], r'its issuer "\\u001bevilx+…" is not .*'),
        (62, [described("a", "b")], "it is for no host, not for hooks.example"),
        (
            10,
            [
                described("a", "b", notAfter="Jan  2 03:04:05 2999 GMT"),
                described("b", "c", notAfter="Jan  2 03:04:05 2020 GMT"),
            ],
            r'the certificate of its issuer "b" expired on 2020-01-02 03:04:05 UTC',
        ),
        (
            10,
            [described("a", "b", notAfter="Jan  2 03:04:05 2999 GMT")],
            "a certificate of its issuers has expired",
        ),
        (10, [], "certificate has expired"),
        (67, [described("a", "b")], "certificate has expired"),
    ],
)
def test_what_the_chain_says(code: int, chain: list[dict[str, Any]], why: str) -> None:
    error = ssl.SSLCertVerificationError(1, "?")
    error.verify_code, error.verify_message = code, "certificate has expired"
    assert re.fullmatch(why, why_invalid(error, chain, HOST))
