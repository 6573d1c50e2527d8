"""Why a target's certificate is not valid, in words that tell its owner what to mend. Pure."""

from __future__ import annotations

import ssl
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from scheduler.texts import visible

Certificate = dict[str, Any]
"""As `ssl.SSLSocket.getpeercert` describes one."""

# OpenSSL's numbers of what it found (X509_V_ERR_…).
_NOT_YET, _EXPIRED, _SELF_SIGNED, _UNTRUSTED_ROOT = 9, 10, 18, 19
_NO_ISSUER = frozenset({2, 20, 21})
_OTHER_NAME = frozenset({62, 64})
_MOST_NAMES = 3
_LONGEST_NAME = 50


def why_invalid(
    error: ssl.SSLCertVerificationError, chain: Sequence[Certificate], host: str
) -> str:
    """`chain`: what the target sent, its own certificate first; empty if that is not known."""
    code = getattr(error, "verify_code", 0)
    if code == _SELF_SIGNED:
        return "it is self-signed"
    if chain and code == _EXPIRED:
        return _expired(chain, time.time())
    if chain and code == _NOT_YET:
        return _not_yet_valid(chain, time.time())
    if chain and code in _OTHER_NAME:
        return f"it is for {_names(chain[0])}, not for {_short(host)}"
    if chain and code == _UNTRUSTED_ROOT:
        return f'its issuer "{_issuer(chain[-1])}" is not trusted here'
    if chain and code in _NO_ISSUER:
        return _no_issuer(chain)
    return _short(getattr(error, "verify_message", "") or "it cannot be verified", 100)


def _expired(chain: Sequence[Certificate], now_s: float) -> str:
    for certificate in chain:
        until_s = ssl.cert_time_to_seconds(certificate["notAfter"])
        if until_s < now_s:
            return f"{_which(certificate, chain)} expired on {_moment(until_s)}"
    return "a certificate of its issuers has expired"


def _not_yet_valid(chain: Sequence[Certificate], now_s: float) -> str:
    for certificate in chain:
        from_s = ssl.cert_time_to_seconds(certificate["notBefore"])
        if from_s > now_s:
            return f"{_which(certificate, chain)} is not valid before {_moment(from_s)}"
    return "a certificate of its issuers is not valid yet"


def _no_issuer(chain: Sequence[Certificate]) -> str:
    """The way from the target's certificate ends at one whose issuer is missing."""
    last = chain[0]
    for certificate in chain[1:]:
        if certificate["subject"] == last["issuer"]:
            last = certificate
    issuer = _issuer(last)
    if last is not chain[0]:
        return f'its issuer "{issuer}" is not trusted here'
    if len(chain) > 1 or "caIssuers" in last:
        return f'its chain is incomplete: the certificate of its issuer "{issuer}" is not sent'
    return (
        f'its issuer "{issuer}" is not trusted here, '
        "or its chain is incomplete: it is sent without its issuer's certificate"
    )


def _which(certificate: Certificate, chain: Sequence[Certificate]) -> str:
    if certificate is chain[0]:
        return "it"
    return f'the certificate of its issuer "{_label(certificate["subject"])}"'


def _names(certificate: Certificate) -> str:
    names = [_short(value) for _, value in certificate.get("subjectAltName", ())]
    if not names:
        return "no host"
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _issuer(certificate: Certificate) -> str:
    return _label(certificate["issuer"])


def _label(name: Sequence[Sequence[tuple[str, str]]]) -> str:
    """What people call the owner of a distinguished name."""
    parts = {key: value for part in name for key, value in part}
    keys = ("commonName", "organizationalUnitName", "organizationName")
    return _short(next((parts[key] for key in keys if key in parts), "without a name"))


def _short(text: str, most: int = _LONGEST_NAME) -> str:
    return visible(text if len(text) <= most else text[: most - 1] + "…")


def _moment(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
