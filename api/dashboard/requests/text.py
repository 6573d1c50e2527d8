"""A request as text: its body for people to read, and the curl line that makes it. Pure."""

from __future__ import annotations

import re
import shlex
from base64 import b64encode
from itertools import accumulate

import msgspec

from scheduler.masks import MASK, masked, masked_url
from scheduler.models import BodyKind, Request
from scheduler.qstash.redacted import shown_headers
from scheduler.target.targets import parse_target
from scheduler.texts import visible

# The most bytes of indented JSON. Each line of a deep and wide body begins with its depth in
# blanks: a quarter of a megabyte came to 213 MiB.
MOST_BYTES = 512 * 1024
_INDENT = 2
# So many are counted in some milliseconds, in which the process does nothing else.
_MOST_BRACKETS = 50_000
# Linux takes arguments of up to 128 KiB.
_MOST_ARGUMENT_BYTES = 100 * 1024

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\x00\x00")
_OTHERS = bytes(set(range(256)) - set(b"[{]},"))


def readable(request: Request) -> str | None:
    """The body: JSON on many lines, with its own spellings; bytes in base64."""
    if request.body is None:
        return None
    if request.body_kind is BodyKind.BINARY:
        return b64encode(request.body).decode()
    if request.body_kind is BodyKind.TEXT:
        return request.body.decode()
    return indented(request.body)


def indented(body: bytes) -> str:
    """As it came, if it would be too large, or has half a surrogate pair, which msgspec refuses."""
    if not _fits(body):
        return body.decode()
    try:
        return msgspec.json.format(body, indent=_INDENT).decode()
    except msgspec.DecodeError:
        return body.decode()


def _fits(body: bytes) -> bool:
    """No line is deeper than the deepest bracket, and each bracket and comma makes at most one."""
    marks = _STRING.sub(b"", body).translate(None, _OTHERS)
    lines = len(marks) + 1
    brackets = marks.translate(_STEPS, b",")
    if len(brackets) > _MOST_BRACKETS:
        return False
    deepest = max(accumulate(1 if step else -1 for step in brackets), default=0)
    return len(body) + lines * (1 + _INDENT * deepest) <= MOST_BYTES


def curl_of(request: Request) -> str:
    """The shell command that sends this request as the worker does: the same target, headers and
    body. Values that look like secrets are left out."""
    url, headers = _as_sent(request.url), masked(shown_headers(request))
    names = {name.lower() for name in headers}
    if request.body is not None and "content-type" not in names:
        headers["Content-Type"] = request.body_kind.content_type
    if request.body is None and request.method in ("POST", "PUT", "PATCH"):
        headers["Content-Length"] = "0"
    lines = [" ".join(["curl", *_switches(request, url), shlex.quote(url)])]
    lines += [f"  --header {_header(name, value)}" for name, value in headers.items()]
    if request.body is None:
        return " \\\n".join(lines)
    text = _as_an_argument(request.body)
    if text is not None:
        return " \\\n".join([*lines, f"  --data-raw {shlex.quote(text)}"])
    # `echo` is the shell's own, which takes an argument of any length.
    piped = b64encode(request.body).decode()
    return f"echo {piped} | base64 -d |\n" + " \\\n".join([*lines, "  --data-binary @-"])


def _as_sent(url: str) -> str:
    """As the worker writes it, escapes and all, so that curl has nothing to escape or to drop."""
    try:
        target = parse_target(url)
    except ValueError:  # not one that the API stores
        return masked_url(url)
    return masked_url(f"{target.scheme}://{target.host_header}{target.path}")


def _switches(request: Request, url: str) -> list[str]:
    found = []
    if set(url) & set("[]{}"):
        found.append("--globoff")
    if "/." in url.partition("?")[0]:
        found.append("--path-as-is")
    if request.method == "HEAD" and request.body is None:
        return [*found, "--head"]
    # curl waits for the body that an answer to HEAD promises, unless it asked by --head.
    limit = ["--max-time", str(request.timeout_s)] if request.method == "HEAD" else []
    return [*found, *limit, "--request", request.method]


def _header(name: str, value: str) -> str:
    """An empty one needs a semicolon: curl drops a header that ends at its colon."""
    if value == MASK:
        return shlex.quote(f"{name}: <{name}>")
    if not value.strip():
        return shlex.quote(f"{name};")
    line = f"{name}: {value}"
    if line.isascii():
        return shlex.quote(line)
    # Latin-1, as on the wire; a shell would send UTF-8.
    plain = (
        chr(byte) if 32 <= byte < 127 and byte not in b"'\\" else f"\\x{byte:02x}"
        for byte in _bytes(line)
    )
    return f"$'{''.join(plain)}'"


def _bytes(line: str) -> bytes:
    try:
        return line.encode("latin-1")
    except UnicodeEncodeError:
        return line.encode()


def _as_an_argument(body: bytes) -> str | None:
    """None for bytes that no shell can hand over, for text that would not be seen or copied as it
    is, and for more than an argument may have."""
    if len(body) > _MOST_ARGUMENT_BYTES or b"\r" in body:
        return None
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return text if visible(text) == text else None
