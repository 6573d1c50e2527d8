"""A request as text: its body for people to read, and the curl line that makes it. Pure."""

from __future__ import annotations

import re
import shlex
from base64 import b64encode
from itertools import accumulate
from urllib.parse import quote

import msgspec

from api.masks import MASK, masked, masked_url
from scheduler.models import BodyKind, Request
from scheduler.texts import visible

# The most bytes of indented JSON. Each line of a deep and wide body begins with its depth in
# blanks: a quarter of a megabyte came to 213 MiB.
MOST_BYTES = 512 * 1024
_INDENT = 2
# So many are counted in some milliseconds, in which the process does nothing else.
_MOST_BRACKETS = 50_000

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
    """The shell command that sends this request. Values that look like secrets are left out."""
    words = ["curl", "--request", request.method, _as_sent(masked_url(request.url))]
    headers = masked(request.headers)
    if request.body is not None and not any(n.lower() == "content-type" for n in headers):
        headers = {"Content-Type": request.body_kind.content_type, **headers}
    for name, value in headers.items():
        shown = f"<{name}>" if value == MASK else value
        words += ["--header", f"{name}: {shown}"]
    if request.body is None:
        return _on_lines(words)
    text = _as_an_argument(request.body)
    if text is not None:
        return _on_lines([*words, "--data-raw", text])
    piped = b64encode(request.body).decode()
    return f"echo {piped} | base64 -d |\n" + _on_lines([*words, "--data-binary", "@-"])


def _as_an_argument(body: bytes) -> str | None:
    """None for bytes that no shell can hand over, and for text that would not be seen as it is."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return text if visible(text) == text else None


def _as_sent(url: str) -> str:
    """Characters that would not be seen as they are stand as the octets that are sent of them."""
    return "".join(each if visible(each) == each else quote(each) for each in url)


def _on_lines(words: list[str]) -> str:
    """The command, and an option with its value on each further line."""
    first = " ".join(shlex.quote(word) for word in words[:4])
    rest = [f"  {words[i]} {shlex.quote(words[i + 1])}" for i in range(4, len(words), 2)]
    return " \\\n".join([first, *rest])
